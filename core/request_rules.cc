#include "core/request_rules.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/errors.h"
#include "core/fingerprint.h"
#include "core/limits.h"
#include "core/utf8.h"
#include "core/uuid.h"

namespace idempotency {
namespace {

// google/protobuf/duration.proto: what a Duration may hold.
constexpr std::int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr std::int32_t kMaxDurationNanos = 999'999'999;
// google.rpc.Code: the highest status code.
constexpr std::int32_t kMaxStatusCode = 16;
// GRPC_COMPRESS_LEVEL_HIGH.
constexpr std::int32_t kMaxCompressionLevel = 3;

using LabelViews = std::map<std::string_view, std::string_view>;

bool IsDuration(const google::protobuf::Duration& proto) {
  const bool in_range = proto.seconds() >= -kMaxDurationSeconds &&
                        proto.seconds() <= kMaxDurationSeconds &&
                        proto.nanos() >= -kMaxDurationNanos && proto.nanos() <= kMaxDurationNanos;
  const bool same_sign =
      (proto.seconds() <= 0 || proto.nanos() >= 0) && (proto.seconds() >= 0 || proto.nanos() <= 0);
  return in_range && same_sign;
}

template <typename Request>
absl::Status ValidateKeyOf(const Request& request) {
  if (!request.has_record_key()) return InvalidField("record_key", "is required");
  return ValidateRecordKey(FromProto(request.record_key()));
}

absl::Status ValidateUuid(std::string_view field, const std::string& text) {
  const std::optional<Uuid> uuid = Uuid::Parse(text);
  if (uuid.has_value() && !uuid->is_nil()) return absl::OkStatus();
  return InvalidField(field, "must be a UUID of 36 characters, not the nil UUID");
}

absl::Status ValidateFingerprintsOf(const v1::ReserveRequest& request) {
  std::vector<Fingerprint> fingerprints;
  fingerprints.reserve(request.fingerprints_size());
  for (const v1::Fingerprint& fingerprint : request.fingerprints()) {
    fingerprints.push_back(FromProto(fingerprint));
  }
  return ValidateFingerprints(fingerprints);
}

// How long the lease and what is kept last, and what follows.
absl::Status ValidateTerms(const v1::ReserveRequest& request) {
  absl::StatusOr<absl::Duration> retention = limits::kDefaultRetention;
  if (request.has_retention()) {
    retention = DurationFrom("retention", request.retention(), limits::kMinRetention,
                             limits::kMaxRetention);
  }
  if (!retention.ok()) return retention.status();
  if (request.has_lease()) {
    const absl::StatusOr<absl::Duration> lease =
        DurationFrom("lease", request.lease(), limits::kMinLease, limits::kMaxLease);
    if (!lease.ok()) return lease.status();
    if (*retention < *lease) return InvalidField("retention", "must not be shorter than the lease");
  }
  if (!v1::LeaseExpiry_IsValid(request.on_lease_expiry())) {
    return InvalidField("on_lease_expiry", "is not a value of LeaseExpiry");
  }
  if (request.has_reply_retention()) {
    const absl::StatusOr<absl::Duration> kept =
        DurationFrom("reply_retention", request.reply_retention(), limits::kMinReplyRetention,
                     limits::kMaxRetention);
    if (!kept.ok()) return kept.status();
    if (*kept > *retention) {
      return InvalidField("reply_retention", "must not be longer than the retention");
    }
  }
  if (!request.has_tombstone()) return absl::OkStatus();
  return DurationFrom("tombstone", request.tombstone(), absl::ZeroDuration(), limits::kMaxTombstone)
      .status();
}

absl::Status ValidateLabelViews(const LabelViews& labels, std::string_view field) {
  if (labels.size() > limits::kMaxLabels) {
    return InvalidField(field, absl::StrCat("must have at most ", limits::kMaxLabels, " entries"));
  }
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > limits::kMaxLabelKeyBytes || !IsUtf8WithoutControls(key)) {
      return InvalidField(field, absl::StrCat("every key must be 1-", limits::kMaxLabelKeyBytes,
                                              " bytes of UTF-8 without control characters"));
    }
    if (value.size() > limits::kMaxLabelValueBytes || !IsUtf8WithoutControls(value)) {
      return InvalidField(field,
                          absl::StrCat("every value must be at most ", limits::kMaxLabelValueBytes,
                                       " bytes of UTF-8 without control characters"));
    }
  }
  return absl::OkStatus();
}

// What is remembered for people.
absl::Status ValidateContext(const v1::ReserveRequest& request) {
  if (request.has_parent()) {
    if (absl::Status valid = ValidateParent(FromProto(request.parent())); !valid.ok()) return valid;
  }
  // In their order, so that a request with several faults gets the same one each time.
  return ValidateLabelViews(LabelViews(request.labels().begin(), request.labels().end()), "labels");
}

// What gRPC takes as a metadata key. Anything else would abort the process that
// replays it.
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

absl::Status ValidateMetadata(
    std::string_view field, const google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  for (int i = 0; i < metadata.size(); ++i) {
    const std::string entry = absl::StrCat(AbslView(field), "[", i, "]");
    if (!IsMetadataKey(metadata[i].key())) {
      return InvalidField(absl::StrCat(entry, ".key"),
                          "must be one or more of a-z, 0-9, '-', '_' and '.'");
    }
    if (!IsMetadataValue(metadata[i])) {
      return InvalidField(absl::StrCat(entry, ".value"),
                          "must be printable ASCII unless the key ends in -bin");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateReply(const v1::Reply& reply) {
  if (reply.code() < 0 || reply.code() > kMaxStatusCode) {
    return InvalidField("reply.code", absl::StrCat("must be 0 to ", kMaxStatusCode));
  }
  if (!v1::ReplyContent_IsValid(reply.content())) {
    return InvalidField("reply.content", "is not a value of ReplyContent");
  }
  if (reply.compression_level() < 0 || reply.compression_level() > kMaxCompressionLevel) {
    return InvalidField("reply.compression_level",
                        absl::StrCat("must be 0 to ", kMaxCompressionLevel));
  }
  if (absl::Status valid = ValidateMetadata("reply.initial_metadata", reply.initial_metadata());
      !valid.ok()) {
    return valid;
  }
  return ValidateMetadata("reply.trailing_metadata", reply.trailing_metadata());
}

// What Complete, Release and Extend have in common.
template <typename Request>
absl::Status ValidateWrite(const Request& request) {
  if (absl::Status valid = ValidateKeyOf(request); !valid.ok()) return valid;
  return ValidateUuid("reservation_token", request.reservation_token());
}

}  // namespace

absl::StatusOr<absl::Duration> DurationFrom(std::string_view field,
                                            const google::protobuf::Duration& proto,
                                            absl::Duration min, absl::Duration max) {
  if (!IsDuration(proto)) return InvalidField(field, "is not a valid Duration");
  const absl::Duration value = absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
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
  if (checkpoint.size() <= limits::kMaxCheckpointBytes) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("must be at most ", limits::kMaxCheckpointBytes, " bytes"));
}

absl::Status ValidateParent(const RecordKey& parent, std::string_view field) {
  absl::Status valid = ValidateRecordKey(parent, field);
  if (valid.ok() || ReasonOf(valid) == Reason::kRequestInvalid) return valid;
  return InvalidField(
      absl::StrCat(AbslView(field), ".key"),
      absl::StrCat("must be 1-", limits::kMaxKeyBytes, " visible ASCII characters"));
}

absl::Status ValidateRequest(const v1::ReserveRequest& request) {
  if (absl::Status valid = ValidateKeyOf(request); !valid.ok()) return valid;
  if (absl::Status valid = ValidateFingerprintsOf(request); !valid.ok()) return valid;
  if (!request.request_token().empty()) {
    absl::Status valid = ValidateUuid("request_token", request.request_token());
    if (!valid.ok()) return valid;
  }
  if (absl::Status valid = ValidateTerms(request); !valid.ok()) return valid;
  if (absl::Status valid = ValidateContext(request); !valid.ok()) return valid;
  if (!request.has_max_wait()) return absl::OkStatus();
  return DurationFrom("max_wait", request.max_wait(), absl::ZeroDuration(), limits::kMaxWait)
      .status();
}

absl::Status ValidateRequest(const v1::CompleteRequest& request) {
  if (absl::Status valid = ValidateWrite(request); !valid.ok()) return valid;
  if (!request.has_reply()) return InvalidField("reply", "is required");
  return ValidateReply(request.reply());
}

absl::Status ValidateRequest(const v1::ReleaseRequest& request) {
  if (absl::Status valid = ValidateWrite(request); !valid.ok()) return valid;
  if (absl::Status valid = ValidateReleaseReason(request.reason()); !valid.ok()) return valid;
  if (!v1::ReleaseOutcome_IsValid(request.outcome())) {
    return InvalidField("outcome", "is not a value of ReleaseOutcome");
  }
  if (!request.has_pause()) return absl::OkStatus();
  return DurationFrom("pause", request.pause(), absl::ZeroDuration(), limits::kMaxReleasePause)
      .status();
}

absl::Status ValidateRequest(const v1::ExtendRequest& request) {
  if (absl::Status valid = ValidateWrite(request); !valid.ok()) return valid;
  if (request.has_lease()) {
    const absl::Status valid =
        DurationFrom("lease", request.lease(), limits::kMinLease, limits::kMaxLease).status();
    if (!valid.ok()) return valid;
  }
  return ValidateCheckpoint(request.checkpoint());
}

absl::Status ValidateRequest(const v1::GetRequest& request) {
  if (!v1::RecordView_IsValid(request.view())) {
    return InvalidField("view", "is not a value of RecordView");
  }
  if (!request.has_record_key() && request.record_id().empty()) {
    return InvalidField("record_key", "is required, or record_id");
  }
  if (!request.record_id().empty()) {
    if (absl::Status valid = ValidateUuid("record_id", request.record_id()); !valid.ok()) {
      return valid;
    }
  }
  if (!request.has_record_key()) return absl::OkStatus();
  const RecordKey key = FromProto(request.record_key());
  if (absl::Status valid = ValidateRecordKey(key); !valid.ok()) return valid;
  if (request.record_id().empty() || Uuid::Parse(request.record_id()) == RecordIdFor(key)) {
    return absl::OkStatus();
  }
  return InvalidField("record_id", "is not the id of record_key");
}

}  // namespace idempotency
