#include "bench/micro/wire_loop.h"

#include "absl/time/time.h"

#include "bench/record_requests.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/operation/wire_request.h"
#include "server/operation/wire_response.h"

namespace idempotency::internal::bench {
namespace {

constexpr char kToken[] = "01234567-89ab-4def-8123-456789abcdef";
const absl::Time kNow = absl::FromUnixSeconds(1700000000);

RecordRequests Requests() {
  RecordRequests::Options options;
  options.keys = {/*seed=*/1, kNow, /*hashed_share=*/0};
  return RecordRequests(options);
}

v1::CompleteRequest Complete() {
  const RecordRequests requests = Requests();
  return requests.Complete(requests.Reserve(0).record_key(), kToken);
}

std::string Answer(const Verdict& verdict, const RecordId& id) {
  constexpr RetryAfterBounds kBounds = {absl::Milliseconds(50), absl::Seconds(1)};
  v1::ReserveResponse response;
  const absl::Status written = WriteVerdict(verdict, id, kBounds, {}, response);
  return written.ok() ? response.SerializeAsString() : std::string();
}

}  // namespace

ReserveWireLoop::ReserveWireLoop() : request_(Requests().Reserve(0).SerializeAsString()) {
  Reserved reserved;
  reserved.token = *Uuid::Parse(kToken);
  reserved.attempt = 1;
  reserved.lease_remaining = absl::Seconds(30);
  reserved.created_at = kNow;
  reserved.expires_at = kNow + absl::Hours(24);
  granted_ = reserved;
}

void ReserveWireLoop::Iterate() {
  v1::ReserveRequest request;
  Use(request.ParseFromString(request_));
  const auto op = ReserveOpFrom(request, limits::kDefaultWindow);
  Use(op);
  Use(Answer(granted_, op->id));
}

CompleteWireLoop::CompleteWireLoop() : request_(Complete().SerializeAsString()) {}

void CompleteWireLoop::Iterate() {
  v1::CompleteRequest request;
  Use(request.ParseFromString(request_));
  Use(CompleteOpFrom(request));
  v1::CompleteResponse response;
  WriteCompletion({kNow, kNow + absl::Hours(24)}, response);
  Use(response.SerializeAsString());
}

ReplayWireLoop::ReplayWireLoop() {
  Replay replay;
  replay.reply = EncodeReply(Complete().reply());
  replay.completed_at = kNow;
  replay.expires_at = kNow + absl::Hours(24);
  replay.attempt = 1;
  replay_ = replay;
}

void ReplayWireLoop::Iterate() { Use(Answer(replay_, RecordId())); }

}  // namespace idempotency::internal::bench
