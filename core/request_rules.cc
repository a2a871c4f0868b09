#include "core/request_rules.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/field_faults.h"
#include "core/utf8.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

// google.rpc.Code: the highest status code.
constexpr std::int32_t kMaxStatusCode = 16;
// GRPC_COMPRESS_LEVEL_HIGH.
constexpr std::int32_t kMaxCompressionLevel = 3;

using LabelViews = std::map<std::string_view, std::string_view>;

template <typename Request>
absl::Status ValidateKeyOf(const Request& request) {
  if (!request.has_record_key()) return InvalidField("record_key", "is required");
  return ValidateRecordKey(request.record_key());
}

absl::Status ValidateUuid(std::string_view field, const std::string& text) {
  const std::optional<Uuid> uuid = Uuid::Parse(text);
  if (uuid.has_value() && !uuid->is_nil()) return absl::OkStatus();
  return InvalidField(field, "must be a UUID of 36 characters, not the nil UUID");
}

// The value if it is set and valid.
std::optional<absl::Duration> Checked(std::string_view field, bool is_set,
                                      const google::protobuf::Duration& proto, absl::Duration min,
                                      absl::Duration max, FieldFaults& faults) {
  if (!is_set) return std::nullopt;
  const absl::StatusOr<absl::Duration> value = DurationFrom(field, proto, min, max);
  if (value.ok()) return *value;
  faults.Add(value.status());
  return std::nullopt;
}

// The durations of the lease and of the record, and the rules between them. A
// default lease is never too long.
void CheckTerms(const v1::ReserveRequest& request, FieldFaults& faults) {
  const auto lease = Checked("lease", request.has_lease(), request.lease(), limits::kMinLease,
                             limits::kMaxLease, faults);
  const auto given = Checked("retention", request.has_retention(), request.retention(),
                             limits::kMinRetention, limits::kMaxRetention, faults);
  const auto kept =
      Checked("reply_retention", request.has_reply_retention(), request.reply_retention(),
              limits::kMinReplyRetention, limits::kMaxRetention, faults);
  // Nothing can be under a retention that is itself at fault.
  if (given || !request.has_retention()) {
    const absl::Duration retention = given.value_or(limits::kDefaultRetention);
    if (lease > retention) faults.Add("retention", "must not be shorter than the lease");
    if (kept > retention) faults.Add("reply_retention", "must not be longer than the retention");
  }
  Checked("tombstone", request.has_tombstone(), request.tombstone(), absl::ZeroDuration(),
          limits::kMaxTombstone, faults);
  Checked("max_wait", request.has_max_wait(), request.max_wait(), absl::ZeroDuration(),
          limits::kMaxWait, faults);
  if (!v1::LeaseExpiry_IsValid(request.on_lease_expiry())) {
    faults.Add("on_lease_expiry", "is not a value of LeaseExpiry");
  }
}

// In their order, so that the same faults make the same refusal.
absl::Status ValidateLabelViews(const LabelViews& labels, std::string_view field) {
  FieldFaults faults;
  if (labels.size() > limits::kMaxLabels) {
    faults.Add(field, absl::StrCat("must have at most ", limits::kMaxLabels, " entries"));
  }
  const auto is_bad_key = [](const auto& label) {
    const std::string_view key = label.first;
    return key.empty() || key.size() > limits::kMaxLabelKeyBytes || !IsUtf8WithoutControls(key);
  };
  const auto is_bad_value = [](const auto& label) {
    return label.second.size() > limits::kMaxLabelValueBytes ||
           !IsUtf8WithoutControls(label.second);
  };
  if (std::any_of(labels.begin(), labels.end(), is_bad_key)) {
    faults.Add(field, absl::StrCat("every key must be 1-", limits::kMaxLabelKeyBytes,
                                   " bytes of UTF-8 without control characters"));
  }
  if (std::any_of(labels.begin(), labels.end(), is_bad_value)) {
    faults.Add(field, absl::StrCat("every value must be at most ", limits::kMaxLabelValueBytes,
                                   " bytes of UTF-8 without control characters"));
  }
  return faults.status();
}

// The metadata keys that gRPC accepts. Anything else would abort the process
// that replays it.
bool IsMetadataKey(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

bool IsMetadataValue(const v1::MetadataEntry& entry) {
  const std::string_view key = entry.key();
  if (key.size() >= 4 && key.substr(key.size() - 4) == "-bin") return true;
  return std::all_of(entry.value().begin(), entry.value().end(),
                     [](char c) { return c >= 0x20 && c <= 0x7E; });
}

void CheckMetadata(std::string_view field,
                   const google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata,
                   FieldFaults& faults) {
  for (int i = 0; i < metadata.size(); ++i) {
    if (!IsMetadataKey(metadata[i].key())) {
      faults.Add(absl::StrCat(AbslView(field), "[", i, "].key"),
                 "must be one or more of a-z, 0-9, '-', '_' and '.'");
    }
    if (!IsMetadataValue(metadata[i])) {
      faults.Add(absl::StrCat(AbslView(field), "[", i, "].value"),
                 "must be printable ASCII unless the key ends in -bin");
    }
  }
}

void CheckReply(const v1::Reply& reply, FieldFaults& faults) {
  if (reply.code() < 0 || reply.code() > kMaxStatusCode) {
    faults.Add("reply.code", absl::StrCat("must be 0 to ", kMaxStatusCode));
  }
  if (!v1::ReplyContent_IsValid(reply.content())) {
    faults.Add("reply.content", "is not a value of ReplyContent");
  }
  if (reply.compression_level() < 0 || reply.compression_level() > kMaxCompressionLevel) {
    faults.Add("reply.compression_level", absl::StrCat("must be 0 to ", kMaxCompressionLevel));
  }
  CheckMetadata("reply.initial_metadata", reply.initial_metadata(), faults);
  CheckMetadata("reply.trailing_metadata", reply.trailing_metadata(), faults);
}

// The common rules of Complete, Release and Extend.
template <typename Request>
void CheckWrite(const Request& request, FieldFaults& faults) {
  faults.Add(ValidateKeyOf(request));
  faults.Add(ValidateUuid("reservation_token", request.reservation_token()));
}

}  // namespace

absl::StatusOr<absl::Duration> DurationFrom(std::string_view field,
                                            const google::protobuf::Duration& proto,
                                            absl::Duration min, absl::Duration max) {
  if (!IsValid(proto)) return InvalidField(field, "is not a valid Duration");
  const absl::Duration value = FromWire(proto);
  if (value < min || value > max) {
    return InvalidField(field, absl::StrCat("must be ", absl::FormatDuration(min), " to ",
                                            absl::FormatDuration(max)));
  }
  return value;
}

absl::Status ValidateLabels(const std::map<std::string, std::string>& labels,
                            std::string_view field) {
  return ValidateLabelViews(LabelViews(labels.begin(), labels.end()), field);
}

absl::Status ValidateReleaseReason(std::string_view reason, std::string_view field) {
  if (reason.size() <= limits::kMaxReleaseReasonBytes && IsUtf8WithoutControls(reason)) {
    return absl::OkStatus();
  }
  return InvalidField(field, absl::StrCat("must be at most ", limits::kMaxReleaseReasonBytes,
                                          " bytes of UTF-8 without control characters"));
}

absl::Status ValidateCheckpoint(std::string_view checkpoint, std::string_view field) {
  if (IsSealedCheckpoint(checkpoint)) {
    return InvalidField(
        "checkpoint",
        "must not begin with the bytes 00 49 43 01, with which sealed checkpoints begin");
  }
  if (checkpoint.size() <= limits::kMaxCheckpointBytes) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("must be at most ", limits::kMaxCheckpointBytes, " bytes"));
}

absl::Status ValidateReply(const v1::Reply& reply) {
  FieldFaults faults;
  CheckReply(reply, faults);
  return faults.status();
}

absl::Status ValidateParent(const RecordKey& parent, std::string_view field) {
  const absl::Status valid = ValidateRecordKey(parent, field);
  FieldFaults faults;
  for (const FieldViolation& violation : DetailsOf(valid).violations) {
    const bool of_key = absl::EndsWith(violation.field, ".key");
    faults.Add(violation.field, of_key ? absl::StrCat("must be 1-", limits::kMaxKeyBytes,
                                                      " visible ASCII characters")
                                       : violation.description);
  }
  return faults.status();
}

absl::Status ValidateRequest(const v1::ReserveRequest& request) {
  FieldFaults faults;
  faults.Add(ValidateKeyOf(request));
  faults.Add(ValidateWireFingerprints(request.fingerprints()));
  if (!request.request_token().empty()) {
    faults.Add(ValidateUuid("request_token", request.request_token()));
  }
  CheckTerms(request, faults);
  // The fields kept for operators.
  if (request.has_parent()) faults.Add(ValidateParent(FromProto(request.parent())));
  faults.Add(
      ValidateLabelViews(LabelViews(request.labels().begin(), request.labels().end()), "labels"));
  return faults.status();
}

absl::Status ValidateRequest(const v1::CompleteRequest& request) {
  FieldFaults faults;
  CheckWrite(request, faults);
  if (!request.has_reply()) faults.Add("reply", "is required");
  CheckReply(request.reply(), faults);
  return faults.status();
}

absl::Status ValidateRequest(const v1::ReleaseRequest& request) {
  FieldFaults faults;
  CheckWrite(request, faults);
  faults.Add(ValidateReleaseReason(request.reason()));
  if (!v1::ReleaseOutcome_IsValid(request.outcome())) {
    faults.Add("outcome", "is not a value of ReleaseOutcome");
  }
  Checked("pause", request.has_pause(), request.pause(), absl::ZeroDuration(),
          limits::kMaxReleasePause, faults);
  return faults.status();
}

absl::Status ValidateRequest(const v1::ExtendRequest& request) {
  FieldFaults faults;
  CheckWrite(request, faults);
  Checked("lease", request.has_lease(), request.lease(), limits::kMinLease, limits::kMaxLease,
          faults);
  faults.Add(ValidateCheckpoint(request.checkpoint()));
  return faults.status();
}

absl::Status ValidateRequest(const v1::GetRequest& request) {
  FieldFaults faults;
  if (!v1::RecordView_IsValid(request.view())) faults.Add("view", "is not a value of RecordView");
  if (!request.has_record_key() && request.record_id().empty()) {
    faults.Add("record_key", "is required, or record_id");
  }
  if (!request.record_id().empty()) faults.Add(ValidateUuid("record_id", request.record_id()));
  if (request.has_record_key()) faults.Add(ValidateRecordKey(request.record_key()));
  if (!faults.empty() || !request.has_record_key() || request.record_id().empty()) {
    return faults.status();
  }
  const RecordKey key = FromProto(request.record_key());
  if (Uuid::Parse(request.record_id()) == RecordIdFor(key)) return absl::OkStatus();
  return InvalidField("record_id", "is not the id of record_key");
}

}  // namespace idempotency::internal
