#include "server/operation/admin_request.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/field_faults.h"
#include "core/record_key_parts.h"
#include "core/request_rules.h"
#include "core/utf8.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"
#include "server/limits.h"
#include "server/operation/page_token.h"
#include "server/store/decision.h"
#include "server/store/limits.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

void CheckTime(std::string_view field, const google::protobuf::Timestamp& time,
               FieldFaults& faults) {
  // 0001-01-01 and 9999-12-31.
  constexpr std::int64_t kFirst = -62'135'596'800;
  constexpr std::int64_t kLast = 253'402'300'799;
  if (time.seconds() < kFirst || time.seconds() > kLast || time.nanos() < 0 ||
      time.nanos() > 999'999'999) {
    faults.Add(field, "is not a valid Timestamp");
  }
}

void CheckPageSize(std::int32_t size, FieldFaults& faults) {
  if (size < 0 || size > limits::kMaxListPage) {
    faults.Add("page_size", absl::StrCat("must be 1 to ", limits::kMaxListPage,
                                         ", or 0 for the default of ", limits::kDefaultListPage));
  }
}

int PageSizeFrom(std::int32_t size) { return size == 0 ? limits::kDefaultListPage : size; }

void CheckReason(const std::string& reason, FieldFaults& faults) {
  if (reason.empty() || reason.size() > limits::kMaxAdminReasonBytes ||
      !IsUtf8WithoutControls(reason)) {
    faults.Add("reason",
               absl::StrCat("is required: 1-", limits::kMaxAdminReasonBytes,
                            " bytes of UTF-8 without control characters, for the audit log"));
  }
}

void CheckId(const std::string& id, FieldFaults& faults) {
  const std::optional<Uuid> uuid = Uuid::Parse(id);
  if (!uuid || uuid->is_nil()) {
    faults.Add("record_id", "must be a UUID of 36 characters, not the nil UUID");
  }
}

// The status message of a reply to a route of HTTP ("HTTP 500"): its callers get that status, and
// the code beside it is only the nearest.
constexpr char kHttpMessagePrefix[] = "HTTP ";

// As for `recorded` of a policy: a client takes these codes for a lost answer, and retries them.
void CheckOutcomeCode(const v1::Reply& reply, FieldFaults& faults) {
  const grpc::StatusCode code = StatusCodeFrom(reply.code());
  // Another number is a fault by itself.
  if (static_cast<int>(code) != reply.code()) return;
  if (ProvesNothing(code) && !absl::StartsWith(reply.message(), kHttpMessagePrefix)) {
    faults.Add("reply.code",
               "must not be CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED or UNAVAILABLE, "
               "which gRPC itself returns: clients take them for a lost answer, and retry");
  }
}

void CheckOutcome(const v1::ResolveRequest& request, FieldFaults& faults) {
  switch (request.outcome()) {
    case v1::RESOLVE_OUTCOME_COMPLETED:
      if (!request.has_reply()) faults.Add("reply", "is required with RESOLVE_OUTCOME_COMPLETED");
      faults.Add(ValidateReply(request.reply()));
      CheckOutcomeCode(request.reply(), faults);
      if (ReplyBytes(request.reply()) > limits::kMaxReplyBytes) {
        faults.Add("reply", absl::StrCat("must be at most ", limits::kMaxReplyBytes, " bytes"));
      }
      break;
    case v1::RESOLVE_OUTCOME_RELEASED:
      if (request.has_reply()) faults.Add("reply", "must be absent unless the record is COMPLETED");
      break;
    default:
      faults.Add("outcome", "must be RESOLVE_OUTCOME_COMPLETED or RESOLVE_OUTCOME_RELEASED");
  }
}

void CheckExpectations(const v1::ResolveRequest& request, FieldFaults& faults) {
  if (request.expected_attempt() == 0 ||
      request.expected_attempt() > std::numeric_limits<std::int32_t>::max()) {
    faults.Add("expected_attempt",
               "is required: the record's attempt, from Get or List, so that a record that moved "
               "on stays as it is");
  }
  if (request.expected_state() != v1::RECORD_STATE_UNSPECIFIED &&
      request.expected_state() != v1::RECORD_STATE_RESERVED &&
      request.expected_state() != v1::RECORD_STATE_UNKNOWN) {
    faults.Add("expected_state",
               "must be RECORD_STATE_RESERVED or RECORD_STATE_UNKNOWN, or absent");
  }
}

void CheckExpectations(const v1::PurgeRequest& request, FieldFaults& faults) {
  if (!v1::RecordState_IsValid(request.expected_state())) {
    faults.Add("expected_state", "is not a RecordState");
  }
  const bool expects =
      request.expected_state() != v1::RECORD_STATE_UNSPECIFIED || request.expected_attempt() > 0;
  if (expects && !request.has_record_key() && !request.has_record_id()) {
    faults.Add("expected_state", "is for one record, as expected_attempt is");
  }
}

void CheckTarget(const v1::PurgeRequest& request, PurgeOp& op, FieldFaults& faults) {
  switch (request.target_case()) {
    case v1::PurgeRequest::kRecordKey:
      faults.Add(ValidateRecordKey(request.record_key()));
      break;
    case v1::PurgeRequest::kRecordId:
      CheckId(request.record_id(), faults);
      break;
    case v1::PurgeRequest::kScope:
      faults.Add(ValidateNamespace(request.scope().namespace_(), "scope"));
      faults.Add(ValidateScope(request.scope().scope(), "scope"));
      op.name_space = request.scope().namespace_();
      op.scope = request.scope().scope();
      break;
    case v1::PurgeRequest::kBefore:
      faults.Add(ValidateNamespace(request.before().namespace_(), "before"));
      if (!request.before().has_created_before()) {
        faults.Add("before.created_before", "is required");
      }
      CheckTime("before.created_before", request.before().created_before(), faults);
      op.name_space = request.before().namespace_();
      op.created_before = FromWire(request.before().created_before());
      break;
    case v1::PurgeRequest::TARGET_NOT_SET:
      faults.Add("target", "exactly one of record_key, record_id, scope and before is required");
  }
}

}  // namespace

absl::StatusOr<ListOp> ListOpFrom(const v1::ListRequest& request) {
  FieldFaults faults;
  faults.Add(ValidateNamespace(request.namespace_()));
  if (!request.scope().empty()) faults.Add(ValidateScope(request.scope()));
  if (!request.operation().empty()) faults.Add(ValidateOperation(request.operation()));
  if (!v1::RecordState_IsValid(request.state())) faults.Add("state", "is not a RecordState");
  CheckTime("created_after", request.created_after(), faults);
  CheckTime("created_before", request.created_before(), faults);
  if (request.has_parent()) faults.Add(ValidateParent(FromProto(request.parent())));
  CheckPageSize(request.page_size(), faults);
  if (!faults.empty()) return faults.status();
  absl::StatusOr<std::optional<RecordPlace>> after = PlaceOf(request);
  if (!after.ok()) return after.status();
  ListOp op;
  op.name_space = request.namespace_();
  if (!request.scope().empty()) op.scope = request.scope();
  if (!request.operation().empty()) op.operation = request.operation();
  op.state = RecordStateFrom(request.state());
  if (request.has_created_after()) op.created_after = FromWire(request.created_after());
  if (request.has_created_before()) op.created_before = FromWire(request.created_before());
  if (request.has_parent()) op.parent = FromProto(request.parent());
  op.after = *std::move(after);
  op.limit = PageSizeFrom(request.page_size());
  return op;
}

absl::StatusOr<ResolveOp> ResolveOpFrom(const v1::ResolveRequest& request) {
  FieldFaults faults;
  if (request.has_record_key() == !request.record_id().empty()) {
    faults.Add("record_key", "exactly one of record_key and record_id is required");
  } else if (request.has_record_key()) {
    faults.Add(ValidateRecordKey(request.record_key()));
  } else {
    CheckId(request.record_id(), faults);
  }
  CheckOutcome(request, faults);
  CheckReason(request.reason(), faults);
  CheckExpectations(request, faults);
  ResolveOp op;
  if (request.has_retention()) {
    const absl::StatusOr<absl::Duration> retention = DurationFrom(
        "retention", request.retention(), limits::kMinRetention, limits::kMaxRetention);
    faults.Add(retention.status());
    if (retention.ok()) op.retention = WholeMicroseconds(*retention);
  }
  if (!faults.empty()) return faults.status();
  op.expected_attempt = request.expected_attempt();
  op.expected_state = RecordStateFrom(request.expected_state());
  if (request.has_reply()) op.reply = EncodeReply(request.reply());
  op.force = request.force();
  op.validate_only = request.validate_only();
  op.note.reason = request.reason();
  return op;
}

absl::StatusOr<PurgeOp> PurgeOpFrom(const v1::PurgeRequest& request) {
  FieldFaults faults;
  PurgeOp op;
  CheckTarget(request, op, faults);
  CheckReason(request.reason(), faults);
  if (request.has_tombstone()) {
    const absl::StatusOr<absl::Duration> tombstone =
        DurationFrom("tombstone", request.tombstone(), absl::ZeroDuration(), limits::kMaxTombstone);
    faults.Add(tombstone.status());
    if (tombstone.ok()) op.tombstone = WholeMicroseconds(*tombstone);
  }
  CheckExpectations(request, faults);
  if (!faults.empty()) return faults.status();
  absl::StatusOr<std::optional<RecordPlace>> after = PlaceOf(request);
  if (!after.ok()) return after.status();
  op.after = *std::move(after);
  op.force = request.force();
  op.expected_state = RecordStateFrom(request.expected_state());
  if (request.expected_attempt() > 0) op.expected_attempt = request.expected_attempt();
  op.validate_only = request.validate_only();
  op.note.reason = request.reason();
  return op;
}

absl::StatusOr<ResealOp> ResealOpFrom(const v1::ResealRequest& request) {
  FieldFaults faults;
  faults.Add(ValidateNamespace(request.namespace_()));
  CheckReason(request.reason(), faults);
  if (!faults.empty()) return faults.status();
  absl::StatusOr<std::optional<RecordPlace>> after = PlaceOf(request);
  if (!after.ok()) return after.status();
  ResealOp op;
  op.name_space = request.namespace_();
  op.after = *std::move(after);
  op.validate_only = request.validate_only();
  op.note.reason = request.reason();
  return op;
}

absl::StatusOr<AuditOp> AuditOpFrom(const v1::ListAuditRequest& request) {
  FieldFaults faults;
  faults.Add(ValidateNamespace(request.namespace_()));
  CheckPageSize(request.page_size(), faults);
  if (!request.record_id().empty()) CheckId(request.record_id(), faults);
  if (!faults.empty()) return faults.status();
  const absl::StatusOr<std::int64_t> after = SequenceOf(request);
  if (!after.ok()) return after.status();
  AuditOp op;
  op.name_space = request.namespace_();
  op.after = *after;
  op.limit = PageSizeFrom(request.page_size());
  if (!request.record_id().empty()) op.record_id = Uuid::Parse(request.record_id());
  op.newest_first = request.newest_first();
  return op;
}

std::optional<RecordTarget> RecordOf(const v1::ResolveRequest& request) {
  if (!request.has_record_key()) {
    return RecordTarget{std::nullopt, Uuid::Parse(request.record_id()).value_or(Uuid())};
  }
  RecordKey key = FromProto(request.record_key());
  const RecordId id = RecordIdFor(key);
  return RecordTarget{std::move(key), id};
}

std::optional<RecordTarget> RecordOf(const v1::PurgeRequest& request) {
  if (request.has_record_id()) {
    return RecordTarget{std::nullopt, Uuid::Parse(request.record_id()).value_or(Uuid())};
  }
  if (!request.has_record_key()) return std::nullopt;
  RecordKey key = FromProto(request.record_key());
  const RecordId id = RecordIdFor(key);
  return RecordTarget{std::move(key), id};
}

}  // namespace idempotency::internal
