#include "server/wire_request.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/errors.h"
#include "core/fingerprint.h"
#include "core/limits.h"
#include "core/record_key.h"
#include "core/reply.h"
#include "core/utf8.h"

namespace idempotency {
namespace {

// google/protobuf/duration.proto: what a Duration may hold.
constexpr std::int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr std::int32_t kMaxDurationNanos = 999'999'999;
// google.rpc.Code: the highest status code.
constexpr std::int32_t kMaxStatusCode = 16;
// GRPC_COMPRESS_LEVEL_HIGH.
constexpr std::int32_t kMaxCompressionLevel = 3;

bool IsDuration(const google::protobuf::Duration& proto) {
  const bool in_range = proto.seconds() >= -kMaxDurationSeconds &&
                        proto.seconds() <= kMaxDurationSeconds &&
                        proto.nanos() >= -kMaxDurationNanos && proto.nanos() <= kMaxDurationNanos;
  const bool same_sign =
      (proto.seconds() <= 0 || proto.nanos() >= 0) && (proto.seconds() >= 0 || proto.nanos() <= 0);
  return in_range && same_sign;
}

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

// What stores keep. After every check: what is too long by less is too long.
absl::Duration WholeMicroseconds(absl::Duration duration) {
  return absl::Microseconds(absl::ToInt64Microseconds(duration));
}

template <typename Request>
absl::StatusOr<absl::Duration> LeaseFrom(const Request& request, absl::Duration otherwise) {
  if (!request.has_lease()) return otherwise;
  return DurationFrom("lease", request.lease(), limits::kMinLease, limits::kMaxLease);
}

absl::StatusOr<absl::Duration> RetentionFrom(const v1::ReserveRequest& request) {
  if (!request.has_retention()) return limits::kDefaultRetention;
  return DurationFrom("retention", request.retention(), limits::kMinRetention,
                      limits::kMaxRetention);
}

template <typename Request>
absl::StatusOr<RecordKey> RecordKeyFrom(const Request& request) {
  if (!request.has_record_key()) return InvalidField("record_key", "is required");
  RecordKey key = FromProto(request.record_key());
  if (absl::Status valid = ValidateRecordKey(key); !valid.ok()) return valid;
  return key;
}

// KEY_MISSING and KEY_INVALID speak of the call's own key, and this is not it.
absl::StatusOr<std::optional<RecordKey>> ParentFrom(const v1::ReserveRequest& request) {
  if (!request.has_parent()) return std::optional<RecordKey>();
  RecordKey parent = FromProto(request.parent());
  const absl::Status valid = ValidateRecordKey(parent, "parent");
  if (valid.ok()) return std::optional<RecordKey>(std::move(parent));
  if (ReasonOf(valid) == Reason::kRequestInvalid) return valid;
  return InvalidField(
      "parent.key", absl::StrCat("must be 1-", limits::kMaxKeyBytes, " visible ASCII characters"));
}

absl::StatusOr<std::vector<Fingerprint>> FingerprintsFrom(const v1::ReserveRequest& request) {
  std::vector<Fingerprint> fingerprints;
  fingerprints.reserve(request.fingerprints_size());
  for (const v1::Fingerprint& fingerprint : request.fingerprints()) {
    fingerprints.push_back(FromProto(fingerprint));
  }
  if (absl::Status valid = ValidateFingerprints(fingerprints); !valid.ok()) return valid;
  return fingerprints;
}

absl::StatusOr<Uuid> UuidFrom(std::string_view field, const std::string& text) {
  const std::optional<Uuid> uuid = Uuid::Parse(text);
  if (!uuid.has_value() || uuid->is_nil()) {
    return InvalidField(field, "must be a UUID of 36 characters, not the nil UUID");
  }
  return *uuid;
}

absl::StatusOr<LeaseExpiry> LeaseExpiryFrom(const v1::ReserveRequest& request) {
  switch (request.on_lease_expiry()) {
    case v1::LEASE_EXPIRY_UNSPECIFIED:
    case v1::LEASE_EXPIRY_TAKE_OVER:
      return LeaseExpiry::kTakeOver;
    case v1::LEASE_EXPIRY_REQUIRE_RECOVERY:
      return LeaseExpiry::kRequireRecovery;
    default:
      return InvalidField("on_lease_expiry", "is not a value of LeaseExpiry");
  }
}

absl::StatusOr<std::map<std::string, std::string>> LabelsFrom(const v1::ReserveRequest& request) {
  if (request.labels().size() > limits::kMaxLabels) {
    return InvalidField("labels",
                        absl::StrCat("must have at most ", limits::kMaxLabels, " entries"));
  }
  // In their order, so that a request with several faults is told the same one each time.
  std::map<std::string, std::string> labels(request.labels().begin(), request.labels().end());
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > limits::kMaxLabelKeyBytes || !IsUtf8WithoutControls(key)) {
      return InvalidField("labels", absl::StrCat("every key must be 1-", limits::kMaxLabelKeyBytes,
                                                 " bytes of UTF-8 without control characters"));
    }
    if (value.size() > limits::kMaxLabelValueBytes || !IsUtf8WithoutControls(value)) {
      return InvalidField("labels",
                          absl::StrCat("every value must be at most ", limits::kMaxLabelValueBytes,
                                       " bytes of UTF-8 without control characters"));
    }
  }
  return labels;
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

// Who writes: what Complete, Release and Extend have in common.
template <typename Op, typename Request>
absl::StatusOr<Op> WriteOpFrom(const Request& request) {
  absl::StatusOr<RecordKey> key = RecordKeyFrom(request);
  if (!key.ok()) return key.status();
  const absl::StatusOr<Uuid> token = UuidFrom("reservation_token", request.reservation_token());
  if (!token.ok()) return token.status();
  Op op;
  op.id = RecordIdFor(*key);
  op.key = *std::move(key);
  op.token = *token;
  return op;
}

// The durations and policies of a reservation.
absl::Status ReadTerms(const v1::ReserveRequest& request, ReserveOp& op) {
  const absl::StatusOr<absl::Duration> retention = RetentionFrom(request);
  if (!retention.ok()) return retention.status();
  const absl::StatusOr<absl::Duration> lease =
      LeaseFrom(request, std::min(limits::kDefaultLease, *retention));
  if (!lease.ok()) return lease.status();
  if (*retention < *lease) return InvalidField("retention", "must not be shorter than the lease");
  const absl::StatusOr<LeaseExpiry> expiry = LeaseExpiryFrom(request);
  if (!expiry.ok()) return expiry.status();
  if (request.has_reply_retention()) {
    const absl::StatusOr<absl::Duration> kept =
        DurationFrom("reply_retention", request.reply_retention(), limits::kMinReplyRetention,
                     limits::kMaxRetention);
    if (!kept.ok()) return kept.status();
    if (*kept > *retention) {
      return InvalidField("reply_retention", "must not be longer than the retention");
    }
    op.reply_retention = WholeMicroseconds(*kept);
  }
  if (request.has_tombstone()) {
    const absl::StatusOr<absl::Duration> tombstone =
        DurationFrom("tombstone", request.tombstone(), absl::ZeroDuration(), limits::kMaxTombstone);
    if (!tombstone.ok()) return tombstone.status();
    op.tombstone = WholeMicroseconds(*tombstone);
  }
  op.lease = WholeMicroseconds(*lease);
  op.retention = WholeMicroseconds(*retention);
  op.on_lease_expiry = *expiry;
  op.recover = request.recover();
  return absl::OkStatus();
}

// What is remembered for people.
absl::Status ReadContext(const v1::ReserveRequest& request, ReserveOp& op) {
  absl::StatusOr<std::optional<RecordKey>> parent = ParentFrom(request);
  if (!parent.ok()) return parent.status();
  absl::StatusOr<std::map<std::string, std::string>> labels = LabelsFrom(request);
  if (!labels.ok()) return labels.status();
  op.parent = *std::move(parent);
  op.labels = *std::move(labels);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReserveOp> ReserveOpFrom(const v1::ReserveRequest& request, absl::Duration window) {
  ReserveOp op;
  absl::StatusOr<RecordKey> key = RecordKeyFrom(request);
  if (!key.ok()) return key.status();
  op.id = RecordIdFor(*key);
  op.key = *std::move(key);
  absl::StatusOr<std::vector<Fingerprint>> fingerprints = FingerprintsFrom(request);
  if (!fingerprints.ok()) return fingerprints.status();
  op.fingerprints = *std::move(fingerprints);
  if (!request.request_token().empty()) {
    const absl::StatusOr<Uuid> token = UuidFrom("request_token", request.request_token());
    if (!token.ok()) return token.status();
    op.request_token = *token;
  }
  op.window = window;
  if (absl::Status read = ReadTerms(request, op); !read.ok()) return read;
  if (absl::Status read = ReadContext(request, op); !read.ok()) return read;
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
  absl::StatusOr<CompleteOp> op = WriteOpFrom<CompleteOp>(request);
  if (!op.ok()) return op;
  if (!request.has_reply()) return InvalidField("reply", "is required");
  if (absl::Status valid = ValidateReply(request.reply()); !valid.ok()) return valid;
  op->reply = ReplyBytes(request.reply()) > limits::kMaxReplyBytes
                  ? EncodeReply(WithoutContent(request.reply()))
                  : EncodeReply(request.reply());
  return op;
}

absl::StatusOr<ReleaseOp> ReleaseOpFrom(const v1::ReleaseRequest& request) {
  absl::StatusOr<ReleaseOp> op = WriteOpFrom<ReleaseOp>(request);
  if (!op.ok()) return op;
  if (request.reason().size() > limits::kMaxReleaseReasonBytes ||
      !IsUtf8WithoutControls(request.reason())) {
    return InvalidField("reason", absl::StrCat("must be at most ", limits::kMaxReleaseReasonBytes,
                                               " bytes of UTF-8 without control characters"));
  }
  if (!v1::ReleaseOutcome_IsValid(request.outcome())) {
    return InvalidField("outcome", "is not a value of ReleaseOutcome");
  }
  op->reason = request.reason();
  op->outcome_unknown = request.outcome() == v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN;
  return op;
}

absl::StatusOr<ExtendOp> ExtendOpFrom(const v1::ExtendRequest& request) {
  absl::StatusOr<ExtendOp> op = WriteOpFrom<ExtendOp>(request);
  if (!op.ok()) return op;
  const absl::StatusOr<absl::Duration> lease = LeaseFrom(request, limits::kDefaultLease);
  if (!lease.ok()) return lease.status();
  if (request.checkpoint().size() > limits::kMaxCheckpointBytes) {
    return InvalidField("checkpoint",
                        absl::StrCat("must be at most ", limits::kMaxCheckpointBytes, " bytes"));
  }
  op->lease = WholeMicroseconds(*lease);
  if (!request.checkpoint().empty()) op->checkpoint = request.checkpoint();
  return op;
}

absl::StatusOr<GetOp> GetOpFrom(const v1::GetRequest& request) {
  if (!v1::RecordView_IsValid(request.view())) {
    return InvalidField("view", "is not a value of RecordView");
  }
  if (!request.has_record_key() && request.record_id().empty()) {
    return InvalidField("record_key", "is required, or record_id");
  }
  GetOp op;
  if (!request.record_id().empty()) {
    const absl::StatusOr<RecordId> id = UuidFrom("record_id", request.record_id());
    if (!id.ok()) return id.status();
    op.id = *id;
  }
  if (!request.has_record_key()) return op;
  absl::StatusOr<RecordKey> key = RecordKeyFrom(request);
  if (!key.ok()) return key.status();
  const RecordId id = RecordIdFor(*key);
  if (!request.record_id().empty() && op.id != id) {
    return InvalidField("record_id", "is not the id of record_key");
  }
  op.id = id;
  op.key = *std::move(key);
  return op;
}

}  // namespace idempotency
