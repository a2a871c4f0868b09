#include "server/operation/wire_request.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/request_rules.h"
#include "core/wire_time.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/decision.h"

namespace idempotency::internal {
namespace {

// Of text that was checked.
Uuid UuidFrom(const std::string& text) { return Uuid::Parse(text).value_or(Uuid()); }

LeaseExpiry LeaseExpiryFrom(const v1::ReserveRequest& request) {
  return request.on_lease_expiry() == v1::LEASE_EXPIRY_TAKE_OVER ? LeaseExpiry::kTakeOver
                                                                 : LeaseExpiry::kRequireRecovery;
}

// The writer's identity: the common fields of Complete, Release and Extend.
template <typename Op, typename Request>
Op WriteOpFrom(const Request& request) {
  Op op;
  op.key = FromProto(request.record_key());
  op.id = RecordIdFor(op.key);
  op.token = UuidFrom(request.reservation_token());
  return op;
}

// The durations and policies of a reservation.
void ReadTerms(const v1::ReserveRequest& request, ReserveOp& op) {
  op.retention = request.has_retention() ? WholeMicroseconds(FromWire(request.retention()))
                                         : limits::kDefaultRetention;
  op.lease = request.has_lease() ? WholeMicroseconds(FromWire(request.lease()))
                                 : std::min(limits::kDefaultLease, op.retention);
  if (request.has_reply_retention()) {
    op.reply_retention = WholeMicroseconds(FromWire(request.reply_retention()));
  }
  if (request.has_tombstone()) op.tombstone = WholeMicroseconds(FromWire(request.tombstone()));
  op.on_lease_expiry = LeaseExpiryFrom(request);
  op.recover = request.recover();
  op.relaxed = request.relaxed();
}

// The fields kept for operators.
void ReadContext(const v1::ReserveRequest& request, ReserveOp& op) {
  if (request.has_parent()) op.parent = FromProto(request.parent());
  op.labels.insert(request.labels().begin(), request.labels().end());
}

}  // namespace

absl::StatusOr<ReserveOp> ReserveOpFrom(const v1::ReserveRequest& request, absl::Duration window) {
  if (absl::Status valid = ValidateRequest(request); !valid.ok()) return valid;
  ReserveOp op;
  op.key = FromProto(request.record_key());
  op.id = RecordIdFor(op.key);
  for (const v1::Fingerprint& fingerprint : request.fingerprints()) {
    op.fingerprints.push_back(FromProto(fingerprint));
  }
  if (!request.request_token().empty()) op.request_token = UuidFrom(request.request_token());
  op.window = window;
  ReadTerms(request, op);
  ReadContext(request, op);
  return op;
}

absl::StatusOr<absl::Duration> MaxWaitFrom(const v1::ReserveRequest& request) {
  if (!request.has_max_wait()) return absl::ZeroDuration();
  return DurationFrom("max_wait", request.max_wait(), absl::ZeroDuration(), limits::kMaxWait);
}

absl::StatusOr<absl::Duration> TimeoutFrom(const v1::SessionOperation& operation) {
  if (!operation.has_timeout()) return absl::InfiniteDuration();
  const absl::StatusOr<absl::Duration> timeout =
      DurationFrom("timeout", operation.timeout(), absl::ZeroDuration(), absl::InfiniteDuration());
  // More than a clock could count.
  if (timeout.ok() && *timeout > limits::kMaxRetention) return absl::InfiniteDuration();
  return timeout;
}

absl::StatusOr<CompleteOp> CompleteOpFrom(const v1::CompleteRequest& request) {
  if (absl::Status valid = ValidateRequest(request); !valid.ok()) return valid;
  auto op = WriteOpFrom<CompleteOp>(request);
  op.reply = ReplyBytes(request.reply()) > limits::kMaxReplyBytes
                 ? EncodeReply(WithoutContent(request.reply()))
                 : EncodeReply(request.reply());
  return op;
}

absl::StatusOr<ReleaseOp> ReleaseOpFrom(const v1::ReleaseRequest& request) {
  if (absl::Status valid = ValidateRequest(request); !valid.ok()) return valid;
  auto op = WriteOpFrom<ReleaseOp>(request);
  if (request.has_pause()) op.pause = WholeMicroseconds(FromWire(request.pause()));
  op.reason = request.reason();
  op.outcome_unknown = request.outcome() == v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN;
  return op;
}

absl::StatusOr<ExtendOp> ExtendOpFrom(const v1::ExtendRequest& request) {
  if (absl::Status valid = ValidateRequest(request); !valid.ok()) return valid;
  auto op = WriteOpFrom<ExtendOp>(request);
  op.lease =
      request.has_lease() ? WholeMicroseconds(FromWire(request.lease())) : limits::kDefaultLease;
  if (!request.checkpoint().empty()) op.checkpoint = request.checkpoint();
  return op;
}

absl::StatusOr<GetOp> GetOpFrom(const v1::GetRequest& request) {
  if (absl::Status valid = ValidateRequest(request); !valid.ok()) return valid;
  GetOp op;
  if (!request.record_id().empty()) op.id = UuidFrom(request.record_id());
  if (request.has_record_key()) {
    op.key = FromProto(request.record_key());
    op.id = RecordIdFor(*op.key);
  }
  return op;
}

}  // namespace idempotency::internal
