#include "interceptors/server/connection/store_connection.h"

#include <utility>
#include <variant>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {
namespace {

using ReserveOperation = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
using CompleteOperation = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;

// The part of a grant that the replay of its reply has too.
v1::ReserveResponse PartOfReplay(const v1::ReserveResponse& grant) {
  v1::ReserveResponse part;
  part.set_record_id(grant.record_id());
  v1::Reserved& reserved = *part.mutable_reserved();
  reserved.set_reservation_token(grant.reserved().reservation_token());
  reserved.set_attempt(grant.reserved().attempt());
  *reserved.mutable_labels() = grant.reserved().labels();
  return part;
}

void Keep(ReplayCache& cache, std::shared_ptr<const ReservedRequest> request,
          v1::ReserveResponse response, ReplayCache::Moment asked) {
  cache.Keep(std::make_shared<const ReplayCache::Answer>(
                 ReplayCache::Answer{std::move(request), std::move(response)}),
             asked);
}

void Learn(ReplayCache& cache, std::shared_ptr<const ReservedRequest> request,
           const v1::ReserveResponse& answer, ReplayCache::Moment asked) {
  switch (answer.verdict_case()) {
    case v1::ReserveResponse::kReplay:
      return Keep(cache, std::move(request), answer, asked);
    case v1::ReserveResponse::kReserved:
      return Keep(cache, std::move(request), PartOfReplay(answer), asked);
    case v1::ReserveResponse::kMismatch:
      // The answer to a different request; it does not affect the cached reply.
      return;
    default:
      return cache.DropReplay(*request);
  }
}

// The replay of the reply that `request` completes, except for its times.
std::shared_ptr<ReplayCache::Answer> ReplayOf(const ReplayCache::Answer& grant,
                                              const v1::CompleteRequest& request) {
  const v1::Reserved& reserved = grant.response.reserved();
  auto answer = std::make_shared<ReplayCache::Answer>();
  answer->request = grant.request;
  answer->response.set_record_id(grant.response.record_id());
  v1::Replay& replay = *answer->response.mutable_replay();
  *replay.mutable_reply() = request.reply();
  replay.set_attempt(reserved.attempt());
  *replay.mutable_labels() = reserved.labels();
  return answer;
}

}  // namespace

StoreConnection::StoreConnection(std::unique_ptr<Connection> inner,
                                 std::shared_ptr<ReplayCache> cache)
    : cache_(std::move(cache)), inner_(std::move(inner)) {}

StoreConnection::~StoreConnection() { Close(); }

std::shared_ptr<const ReplayCache::Answer> StoreConnection::FindReplay(
    const v1::ReserveRequest& request) const {
  if (cache_ == nullptr) return nullptr;
  return cache_->FindReplay(request.record_key(), request.fingerprints());
}

bool StoreConnection::Enter() {
  MutexLock lock(mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void StoreConnection::Leave() {
  MutexLock lock(mutex_);
  if (--inside_ == 0 && closed_) left_.NotifyAll();
}

void StoreConnection::Send(AnyConnectionCall call, Deadline deadline) {
  if (!Enter()) {
    std::visit(
        [](auto& typed) {
          typed.done(MakeError(Reason::kStoreUnavailable, "the guard has been shut down"));
        },
        call);
    return;
  }
  if (cache_ != nullptr) {
    if (auto* const reserve = std::get_if<ReserveOperation>(&call)) KeepAnswer(*reserve);
    if (auto* const complete = std::get_if<CompleteOperation>(&call)) KeepAnswer(*complete);
  }
  inner_->Send(std::move(call), deadline);
  Leave();
}

void StoreConnection::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    while (inside_ > 0) left_.Wait(lock);
  }
  inner_.reset();
}

void StoreConnection::KeepAnswer(ReserveOperation& call) const {
  auto request = std::make_shared<const ReservedRequest>(call.request.record_key(),
                                                         call.request.fingerprints());
  call.done = [cache = cache_, request = std::move(request), asked = cache_->Now(),
               done = std::move(call.done)](absl::StatusOr<v1::ReserveResponse> answer) mutable {
    if (answer.ok()) Learn(*cache, std::move(request), *answer, asked);
    done(std::move(answer));
  };
}

void StoreConnection::KeepAnswer(CompleteOperation& call) const {
  const v1::CompleteRequest& request = call.request;
  const std::size_t reply_bytes = ReplyBytes(request.reply());
  // The service stores a reply over kMaxReplyBytes without its content.
  const bool fits =
      reply_bytes <= limits::kMaxReplyBytes && reply_bytes <= cache_->max_entry_bytes();
  const auto grant =
      fits ? cache_->FindGrant(request.record_key(), request.reservation_token()) : nullptr;
  if (grant == nullptr) return;
  call.done = [cache = cache_, asked = cache_->Now(), replay = ReplayOf(*grant, request),
               done = std::move(call.done)](absl::StatusOr<v1::CompleteResponse> answer) {
    if (answer.ok()) {
      v1::Replay& kept = *replay->response.mutable_replay();
      *kept.mutable_completed_at() = answer->completed_at();
      *kept.mutable_expires_at() = answer->expires_at();
      cache->Keep(replay, asked);
    }
    done(std::move(answer));
  };
}

}  // namespace idempotency::internal
