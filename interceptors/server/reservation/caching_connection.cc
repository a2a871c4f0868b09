#include "interceptors/server/reservation/caching_connection.h"

#include <utility>

#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {
namespace {

// What is needed of a request when its answer comes.
struct SentReserve {
  v1::RecordKey key;
  ReplayCache::Fingerprints fingerprints;
  ReplayCache::Moment asked;
};

void Learn(ReplayCache& cache, const SentReserve& reserve_request,
           const v1::ReserveResponse& answer) {
  switch (answer.verdict_case()) {
    case v1::ReserveResponse::kReplay:
    case v1::ReserveResponse::kReserved:
      cache.Keep(reserve_request.key, {reserve_request.fingerprints, answer},
                 reserve_request.asked);
      return;
    case v1::ReserveResponse::kMismatch:
      // Of a request that differs; it says nothing against the reply held.
      return;
    default:
      cache.DropReplay(reserve_request.key);
      return;
  }
}

// The replay of what `request` completes, but for its times.
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

CachingConnection::CachingConnection(std::unique_ptr<Connection> inner,
                                     std::shared_ptr<ReplayCache> cache)
    : cache_(std::move(cache)), inner_(std::move(inner)) {}

void CachingConnection::Reserve(const v1::ReserveRequest& request, Deadline deadline,
                                Callback<v1::ReserveResponse> done) {
  auto reserve_request = std::make_shared<const SentReserve>(
      SentReserve{request.record_key(), request.fingerprints(), cache_->Now()});
  inner_->Reserve(request, deadline,
                  [cache = cache_, reserve_request = std::move(reserve_request),
                   done = std::move(done)](absl::StatusOr<v1::ReserveResponse> answer) {
                    if (answer.ok()) Learn(*cache, *reserve_request, *answer);
                    done(std::move(answer));
                  });
}

void CachingConnection::Complete(const v1::CompleteRequest& request, Deadline deadline,
                                 Callback<v1::CompleteResponse> done) {
  const std::size_t reply_bytes = ReplyBytes(request.reply());
  // Over kMaxReplyBytes the service stores something else than what it was sent.
  const bool fits =
      reply_bytes <= limits::kMaxReplyBytes && reply_bytes <= cache_->max_entry_bytes();
  const auto grant =
      fits ? cache_->FindGrant(request.record_key(), request.reservation_token()) : nullptr;
  if (grant == nullptr) {
    inner_->Complete(request, deadline, std::move(done));
    return;
  }
  auto replay = std::make_shared<ReplayCache::Answer>(ReplayOf(*grant, request));
  inner_->Complete(request, deadline,
                   [cache = cache_, key = request.record_key(), asked = cache_->Now(),
                    replay = std::move(replay),
                    done = std::move(done)](absl::StatusOr<v1::CompleteResponse> answer) {
                     if (answer.ok()) {
                       v1::Replay& kept = *replay->response.mutable_replay();
                       *kept.mutable_completed_at() = answer->completed_at();
                       *kept.mutable_expires_at() = answer->expires_at();
                       cache->Keep(key, std::move(*replay), asked);
                     }
                     done(std::move(answer));
                   });
}

void CachingConnection::Release(const v1::ReleaseRequest& request, Deadline deadline,
                                Callback<v1::ReleaseResponse> done) {
  inner_->Release(request, deadline, std::move(done));
}

void CachingConnection::Extend(const v1::ExtendRequest& request, Deadline deadline,
                               Callback<v1::ExtendResponse> done) {
  inner_->Extend(request, deadline, std::move(done));
}

void CachingConnection::Get(const v1::GetRequest& request, Deadline deadline,
                            Callback<v1::GetResponse> done) {
  inner_->Get(request, deadline, std::move(done));
}

}  // namespace idempotency::internal
