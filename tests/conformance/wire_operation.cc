#include "tests/conformance/wire_operation.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/wire_time.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {
namespace {

absl::Status Lacking(std::string_view what) {
  return absl::InternalError(absl::StrCat("the answer has no proper ", AbslView(what)));
}

template <typename Request, typename Op>
Request WriteRequestOf(const Op& op) {
  Request request;
  *request.mutable_record_key() = ToProto(op.key);
  request.set_reservation_token(op.token.ToString());
  return request;
}

template <typename Request>
void WriteLease(absl::Duration lease, Request& request) {
  if (lease != limits::kDefaultLease) *request.mutable_lease() = ToWire(lease);
}

template <typename Labels>
std::map<std::string, std::string> LabelsFrom(const Labels& labels) {
  return {labels.begin(), labels.end()};
}

absl::StatusOr<PreviousAttempt> PreviousFrom(const v1::Reserved& proto) {
  switch (proto.previous_attempt()) {
    case v1::PREVIOUS_ATTEMPT_UNSPECIFIED:
      if (proto.attempt() == 1) return PreviousAttempt::kNone;
      break;
    case v1::PREVIOUS_ATTEMPT_RELEASED:
      return PreviousAttempt::kReleased;
    case v1::PREVIOUS_ATTEMPT_LEASE_EXPIRED:
      return PreviousAttempt::kLeaseExpired;
    case v1::PREVIOUS_ATTEMPT_OUTCOME_UNKNOWN:
      return PreviousAttempt::kOutcomeUnknown;
    default:
      break;
  }
  return Lacking("previous_attempt");
}

absl::StatusOr<Verdict> ReservedFrom(const v1::Reserved& proto) {
  const std::optional<Uuid> token = Uuid::Parse(proto.reservation_token());
  if (!token.has_value()) return Lacking("reservation_token");
  if (!proto.has_lease_remaining() || !proto.has_created_at() || !proto.has_expires_at()) {
    return Lacking("time");
  }
  const absl::StatusOr<PreviousAttempt> previous = PreviousFrom(proto);
  if (!previous.ok()) return previous.status();
  Reserved reserved;
  reserved.token = *token;
  reserved.attempt = proto.attempt();
  reserved.lease_remaining = FromWire(proto.lease_remaining());
  reserved.recovering = proto.recovering();
  reserved.checkpoint = proto.checkpoint();
  reserved.created_at = FromWire(proto.created_at());
  reserved.expires_at = FromWire(proto.expires_at());
  reserved.labels = LabelsFrom(proto.labels());
  reserved.previous_attempt = *previous;
  return reserved;
}

absl::StatusOr<Verdict> OutcomeUnknownFrom(const v1::OutcomeUnknown& proto) {
  if (!proto.has_since()) return Lacking("time");
  OutcomeUnknown unknown;
  unknown.attempt = proto.attempt();
  unknown.reason = proto.reason();
  unknown.since = FromWire(proto.since());
  switch (proto.cause()) {
    case v1::OutcomeUnknown::CAUSE_RELEASED:
      unknown.cause = OutcomeUnknown::Cause::kReleased;
      return unknown;
    case v1::OutcomeUnknown::CAUSE_LEASE_EXPIRED:
      unknown.cause = OutcomeUnknown::Cause::kLeaseExpired;
      return unknown;
    default:
      return Lacking("cause");
  }
}

absl::StatusOr<Verdict> ReplayFrom(const v1::Replay& proto) {
  if (!proto.has_reply()) return Lacking("reply");
  if (!proto.has_completed_at() || !proto.has_expires_at()) return Lacking("time");
  Replay replay;
  replay.reply = EncodeReply(proto.reply());
  replay.completed_at = FromWire(proto.completed_at());
  replay.expires_at = FromWire(proto.expires_at());
  replay.attempt = proto.attempt();
  replay.labels = LabelsFrom(proto.labels());
  return replay;
}

absl::StatusOr<RecordState> StateFrom(v1::RecordState state) {
  switch (state) {
    case v1::RECORD_STATE_RESERVED:
      return RecordState::kReserved;
    case v1::RECORD_STATE_COMPLETED:
      return RecordState::kCompleted;
    case v1::RECORD_STATE_RELEASED:
      return RecordState::kReleased;
    case v1::RECORD_STATE_UNKNOWN:
      return RecordState::kUnknown;
    default:
      return Lacking("state");
  }
}

absl::StatusOr<LeaseExpiry> PolicyFrom(v1::LeaseExpiry policy) {
  switch (policy) {
    case v1::LEASE_EXPIRY_TAKE_OVER:
      return LeaseExpiry::kTakeOver;
    case v1::LEASE_EXPIRY_REQUIRE_RECOVERY:
      return LeaseExpiry::kRequireRecovery;
    default:
      return Lacking("on_lease_expiry");
  }
}

// All of them, and the one with the highest version in a field of its own.
absl::Status ReadFingerprints(const v1::Record& proto, Record& record) {
  Fingerprint highest;
  for (const v1::Fingerprint& fingerprint : proto.fingerprints()) {
    record.fingerprints.push_back(FromProto(fingerprint));
    if (fingerprint.version() > highest.version) highest = record.fingerprints.back();
  }
  return FromProto(proto.fingerprint()) == highest ? absl::OkStatus() : Lacking("fingerprint");
}

absl::Status ReadTimes(const v1::Record& proto, Record& record) {
  if (!proto.has_created_at() || !proto.has_lease_expires_at() || !proto.has_expires_at()) {
    return Lacking("time");
  }
  record.created_at = FromWire(proto.created_at());
  record.lease_expires_at = FromWire(proto.lease_expires_at());
  record.expires_at = FromWire(proto.expires_at());
  if (proto.has_completed_at()) record.completed_at = FromWire(proto.completed_at());
  if (proto.has_reply_expires_at()) record.reply_expires_at = FromWire(proto.reply_expires_at());
  if (proto.has_tombstone_until()) record.tombstone_until = FromWire(proto.tombstone_until());
  return absl::OkStatus();
}

}  // namespace

v1::ReserveRequest RequestOf(const ReserveOp& op) {
  v1::ReserveRequest request;
  *request.mutable_record_key() = ToProto(op.key);
  for (const Fingerprint& fingerprint : op.fingerprints) {
    *request.add_fingerprints() = ToProto(fingerprint);
  }
  if (op.request_token) request.set_request_token(op.request_token->ToString());
  WriteLease(op.lease, request);
  if (op.retention != limits::kDefaultRetention) {
    *request.mutable_retention() = ToWire(op.retention);
  }
  request.set_on_lease_expiry(op.on_lease_expiry == LeaseExpiry::kTakeOver
                                  ? v1::LEASE_EXPIRY_TAKE_OVER
                                  : v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  request.set_recover(op.recover);
  request.set_relaxed(op.relaxed);
  if (op.parent) *request.mutable_parent() = ToProto(*op.parent);
  request.mutable_labels()->insert(op.labels.begin(), op.labels.end());
  if (op.reply_retention) *request.mutable_reply_retention() = ToWire(*op.reply_retention);
  if (op.tombstone != absl::ZeroDuration()) *request.mutable_tombstone() = ToWire(op.tombstone);
  return request;
}

v1::CompleteRequest RequestOf(const CompleteOp& op) {
  auto request = WriteRequestOf<v1::CompleteRequest>(op);
  *request.mutable_reply() = DecodeReply(op.reply).value();
  return request;
}

v1::ReleaseRequest RequestOf(const ReleaseOp& op) {
  auto request = WriteRequestOf<v1::ReleaseRequest>(op);
  request.set_reason(op.reason);
  request.set_outcome(op.outcome_unknown ? v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN
                                         : v1::RELEASE_OUTCOME_NOTHING_HAPPENED);
  if (op.pause > absl::ZeroDuration()) *request.mutable_pause() = ToWire(op.pause);
  return request;
}

v1::ExtendRequest RequestOf(const ExtendOp& op) {
  auto request = WriteRequestOf<v1::ExtendRequest>(op);
  WriteLease(op.lease, request);
  if (op.checkpoint) request.set_checkpoint(*op.checkpoint);
  return request;
}

v1::GetRequest RequestOf(const GetOp& op) {
  v1::GetRequest request;
  if (op.key) {
    *request.mutable_record_key() = ToProto(*op.key);
  } else {
    request.set_record_id(op.id.ToString());
  }
  request.set_view(v1::RECORD_VIEW_FULL);
  return request;
}

absl::StatusOr<Verdict> AnswerTo(const ReserveOp& op, const v1::ReserveResponse& response) {
  if (response.record_id() != RecordIdFor(op.key).ToString()) return Lacking("record_id");
  switch (response.verdict_case()) {
    case v1::ReserveResponse::kReserved:
      return ReservedFrom(response.reserved());
    case v1::ReserveResponse::kReplay:
      return ReplayFrom(response.replay());
    case v1::ReserveResponse::kInFlight:
      return InFlight{FromWire(response.in_flight().retry_after()), response.in_flight().attempt()};
    case v1::ReserveResponse::kMismatch:
      return Mismatch{response.mismatch().attempt()};
    case v1::ReserveResponse::kOutcomeUnknown:
      return OutcomeUnknownFrom(response.outcome_unknown());
    case v1::ReserveResponse::kExpired:
      return Expired();
    case v1::ReserveResponse::VERDICT_NOT_SET:
      break;
  }
  return Lacking("verdict");
}

absl::StatusOr<Completion> AnswerTo(const CompleteOp& /*op*/,
                                    const v1::CompleteResponse& response) {
  if (!response.has_completed_at() || !response.has_expires_at()) return Lacking("time");
  Completion completion;
  completion.completed_at = FromWire(response.completed_at());
  completion.expires_at = FromWire(response.expires_at());
  return completion;
}

absl::Status AnswerTo(const ReleaseOp& /*op*/, const v1::ReleaseResponse& /*response*/) {
  return absl::OkStatus();
}

absl::StatusOr<Extension> AnswerTo(const ExtendOp& /*op*/, const v1::ExtendResponse& response) {
  if (!response.has_lease_remaining()) return Lacking("time");
  return Extension{FromWire(response.lease_remaining())};
}

absl::StatusOr<Record> AnswerTo(const GetOp& /*op*/, const v1::GetResponse& response) {
  const v1::Record& proto = response.record();
  const std::optional<Uuid> id = Uuid::Parse(proto.record_id());
  if (!id.has_value()) return Lacking("record_id");
  const absl::StatusOr<RecordState> state = StateFrom(proto.state());
  if (!state.ok()) return state.status();
  const absl::StatusOr<LeaseExpiry> policy = PolicyFrom(proto.on_lease_expiry());
  if (!policy.ok()) return policy.status();
  Record record;
  record.id = *id;
  record.key = FromProto(proto.record_key());
  record.state = *state;
  record.attempt = proto.attempt();
  record.on_lease_expiry = *policy;
  if (proto.has_parent()) record.parent = FromProto(proto.parent());
  record.labels = LabelsFrom(proto.labels());
  record.release_reason = proto.release_reason();
  if (absl::Status read = ReadFingerprints(proto, record); !read.ok()) return read;
  if (absl::Status read = ReadTimes(proto, record); !read.ok()) return read;
  if (proto.has_reply()) record.reply = EncodeReply(proto.reply());
  return record;
}

}  // namespace idempotency::internal
