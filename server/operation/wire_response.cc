#include "server/operation/wire_response.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/reply_decoding.h"
#include "core/request_rules.h"
#include "core/utf8.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/reply_envelope.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

void Write(const std::map<std::string, std::string>& labels,
           google::protobuf::Map<std::string, std::string>& proto) {
  proto.insert(labels.begin(), labels.end());
}

v1::PreviousAttempt ToProto(PreviousAttempt previous) {
  switch (previous) {
    case PreviousAttempt::kNone:
      break;
    case PreviousAttempt::kReleased:
      return v1::PREVIOUS_ATTEMPT_RELEASED;
    case PreviousAttempt::kLeaseExpired:
      return v1::PREVIOUS_ATTEMPT_LEASE_EXPIRED;
    case PreviousAttempt::kOutcomeUnknown:
      return v1::PREVIOUS_ATTEMPT_OUTCOME_UNKNOWN;
  }
  return v1::PREVIOUS_ATTEMPT_UNSPECIFIED;
}

// What is sealed is opened by the store, if the service has a key ring.
absl::Status NoKeyRing(std::string_view what) {
  return MakeError(Reason::kRecordDamaged,
                   absl::StrCat("the stored ", AbslView(what),
                                " is sealed, and this service has no key ring (--keyring); the "
                                "operation will not run again"));
}

bool IsSealedReply(const EncodedReply& reply) {
  return reply.bytes.compare(0, ReplyEnvelope::kMagic.size(), ReplyEnvelope::kMagic) == 0;
}

absl::Status Write(const Reserved& reserved, v1::Reserved& proto) {
  if (IsSealedCheckpoint(reserved.checkpoint)) return NoKeyRing("checkpoint");
  proto.set_reservation_token(reserved.token.ToString());
  proto.set_attempt(reserved.attempt);
  ToWire(reserved.lease_remaining, *proto.mutable_lease_remaining());
  proto.set_recovering(reserved.recovering);
  proto.set_checkpoint(reserved.checkpoint);
  ToWire(reserved.expires_at, *proto.mutable_expires_at());
  ToWire(reserved.created_at, *proto.mutable_created_at());
  Write(reserved.labels, *proto.mutable_labels());
  proto.set_previous_attempt(ToProto(reserved.previous_attempt));
  return absl::OkStatus();
}

absl::Status Write(const Replay& replay, ReplyLimit limit, v1::Replay& proto) {
  if (IsSealedReply(replay.reply)) return NoKeyRing("reply");
  const std::size_t bytes = replay.reply.bytes.size();
  if (limit.max_bytes > 0 && bytes > limit.max_bytes) {
    // Not into the answer: its arena would keep the memory of the content.
    const absl::StatusOr<v1::Reply> reply = DecodeReply(replay.reply);
    if (!reply.ok()) return reply.status();
    *proto.mutable_reply() = WithoutContent(*reply);
    proto.set_omitted_bytes(bytes);
  } else if (absl::Status status = DecodeReplyInto(replay.reply, *proto.mutable_reply());
             !status.ok()) {
    return status;
  }
  ToWire(replay.completed_at, *proto.mutable_completed_at());
  ToWire(replay.expires_at, *proto.mutable_expires_at());
  proto.set_attempt(replay.attempt);
  Write(replay.labels, *proto.mutable_labels());
  return absl::OkStatus();
}

void Write(const InFlight& in_flight, RetryAfterBounds bounds, v1::InFlight& proto) {
  // An attempt may end before its lease does; a pause never ends early.
  const absl::Duration max =
      in_flight.paused ? std::max(bounds.max, limits::kMaxReleasePause) : bounds.max;
  ToWire(std::clamp(in_flight.lease_remaining, bounds.min, max), *proto.mutable_retry_after());
  proto.set_attempt(in_flight.attempt);
}

void Write(const OutcomeUnknown& unknown, v1::OutcomeUnknown& proto) {
  proto.set_attempt(unknown.attempt);
  proto.set_cause(unknown.cause == OutcomeUnknown::Cause::kReleased
                      ? v1::OutcomeUnknown::CAUSE_RELEASED
                      : v1::OutcomeUnknown::CAUSE_LEASE_EXPIRED);
  // A row written by an older version or by hand may contain anything, and one
  // bad byte would make the whole frame unreadable.
  proto.set_reason(ToUtf8(unknown.reason));
  ToWire(unknown.since, *proto.mutable_since());
}

void WriteFingerprints(const Record& record, v1::Record& proto) {
  for (const Fingerprint& fingerprint : record.fingerprints) {
    const v1::Fingerprint& added = *proto.add_fingerprints() = ToProto(fingerprint);
    if (added.version() >= proto.fingerprint().version()) *proto.mutable_fingerprint() = added;
  }
}

absl::Status WriteReply(const EncodedReply& stored, v1::RecordView view, v1::Reply& proto) {
  if (IsSealedReply(stored)) return NoKeyRing("reply");
  if (view == v1::RECORD_VIEW_FULL) return DecodeReplyInto(stored, proto);
  absl::StatusOr<v1::Reply> reply = DecodeReply(stored);
  if (!reply.ok()) return reply.status();
  // The answer holds no memory of a reply, so it must not be as large as one.
  proto = WithoutContent(*reply);
  proto.set_content(reply->content());
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteVerdict(const Verdict& verdict, const RecordId& id, RetryAfterBounds bounds,
                          ReplyLimit limit, v1::ReserveResponse& response) {
  response.set_record_id(id.ToString());
  if (const auto* const reserved = std::get_if<Reserved>(&verdict)) {
    return Write(*reserved, *response.mutable_reserved());
  } else if (const auto* const replay = std::get_if<Replay>(&verdict)) {
    return Write(*replay, limit, *response.mutable_replay());
  } else if (const auto* const in_flight = std::get_if<InFlight>(&verdict)) {
    Write(*in_flight, bounds, *response.mutable_in_flight());
  } else if (const auto* const mismatch = std::get_if<Mismatch>(&verdict)) {
    response.mutable_mismatch()->set_attempt(mismatch->attempt);
  } else if (const auto* const unknown = std::get_if<OutcomeUnknown>(&verdict)) {
    Write(*unknown, *response.mutable_outcome_unknown());
  } else {
    response.mutable_expired();
  }
  return absl::OkStatus();
}

void WriteCompletion(const Completion& completion, v1::CompleteResponse& response) {
  ToWire(completion.completed_at, *response.mutable_completed_at());
  ToWire(completion.expires_at, *response.mutable_expires_at());
}

void WriteExtension(const Extension& extension, v1::ExtendResponse& response) {
  ToWire(extension.lease_remaining, *response.mutable_lease_remaining());
}

absl::Status WriteRecord(const Record& record, v1::RecordView view, v1::Record& proto) {
  proto.set_record_id(record.id.ToString());
  *proto.mutable_record_key() = ToProto(record.key);
  proto.set_state(ToProto(record.state));
  proto.set_attempt(record.attempt);
  WriteFingerprints(record, proto);
  if (record.parent.has_value()) *proto.mutable_parent() = ToProto(*record.parent);
  Write(record.labels, *proto.mutable_labels());
  ToWire(record.created_at, *proto.mutable_created_at());
  ToWire(record.lease_expires_at, *proto.mutable_lease_expires_at());
  if (record.completed_at) ToWire(*record.completed_at, *proto.mutable_completed_at());
  ToWire(record.expires_at, *proto.mutable_expires_at());
  if (record.reply_expires_at) {
    ToWire(*record.reply_expires_at, *proto.mutable_reply_expires_at());
  }
  if (record.tombstone_until) ToWire(*record.tombstone_until, *proto.mutable_tombstone_until());
  proto.set_on_lease_expiry(ToProto(record.on_lease_expiry));
  proto.set_release_reason(ToUtf8(record.release_reason));
  if (!record.reply.has_value()) return absl::OkStatus();
  return WriteReply(*record.reply, view, *proto.mutable_reply());
}

}  // namespace idempotency::internal
