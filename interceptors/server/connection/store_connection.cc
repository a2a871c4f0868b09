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

// The part of a request that is needed when its answer arrives.
struct SentReserve {
  v1::RecordKey key;
  ReplayCache::Fingerprints fingerprints;
  ReplayCache::Moment asked;
};

void Learn(ReplayCache& cache, const SentReserve& sent, const v1::ReserveResponse& answer) {
  switch (answer.verdict_case()) {
    case v1::ReserveResponse::kReplay:
    case v1::ReserveResponse::kReserved:
      cache.Keep(sent.key, {sent.fingerprints, answer}, sent.asked);
      return;
    case v1::ReserveResponse::kMismatch:
      // The answer to a different request; it does not affect the cached reply.
      return;
    default:
      cache.DropReplay(sent.key);
      return;
  }
}

// The replay of the reply that `request` completes, except for its times.
ReplayCache::Answer ReplayOf(const ReplayCache::Answer& grant, const v1::CompleteRequest& request) {
  const v1::Reserved& reserved = grant.response.reserved();
  ReplayCache::Answer answer;
  answer.fingerprints = grant.fingerprints;
  answer.response.set_record_id(grant.response.record_id());
  v1::Replay& replay = *answer.response.mutable_replay();
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
  auto sent = std::make_shared<const SentReserve>(
      SentReserve{call.request.record_key(), call.request.fingerprints(), cache_->Now()});
  call.done = [cache = cache_, sent = std::move(sent),
               done = std::move(call.done)](absl::StatusOr<v1::ReserveResponse> answer) {
    if (answer.ok()) Learn(*cache, *sent, *answer);
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
  auto replay = std::make_shared<ReplayCache::Answer>(ReplayOf(*grant, request));
  call.done = [cache = cache_, key = request.record_key(), asked = cache_->Now(),
               replay = std::move(replay),
               done = std::move(call.done)](absl::StatusOr<v1::CompleteResponse> answer) {
    if (answer.ok()) {
      v1::Replay& kept = *replay->response.mutable_replay();
      *kept.mutable_completed_at() = answer->completed_at();
      *kept.mutable_expires_at() = answer->expires_at();
      cache->Keep(key, std::move(*replay), asked);
    }
    done(std::move(answer));
  };
}

}  // namespace idempotency::internal
