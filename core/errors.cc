#include "grpc_idempotency/errors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"

#include "core/absl_view.h"
#include "core/error_domain.h"
#include "core/status_payload.h"
#include "core/utf8.h"
#include "core/wire_time.h"
#include "idempotency/wire/rpc_status.pb.h"

namespace idempotency {

using internal::AbslView;
using internal::kStatusPayloadUrl;
using internal::ToUtf8;

namespace {

constexpr std::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr std::string_view kRetryInfoUrl = "type.googleapis.com/google.rpc.RetryInfo";
constexpr std::string_view kBadRequestUrl = "type.googleapis.com/google.rpc.BadRequest";

// The maximum of google.protobuf.Duration: 10,000 years.
constexpr absl::Duration kMaxProtoDuration =
    absl::Seconds(google::protobuf::util::TimeUtil::kDurationMaxSeconds);

struct Entry {
  Reason reason;
  std::string_view name;
  absl::StatusCode code;
};

// In the order of the enumeration.
constexpr std::array kCatalogue = {
    Entry{Reason::kKeyMissing, "KEY_MISSING", absl::StatusCode::kInvalidArgument},
    Entry{Reason::kKeyInvalid, "KEY_INVALID", absl::StatusCode::kInvalidArgument},
    Entry{Reason::kKeyReused, "KEY_REUSED", absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kKeyExpired, "KEY_EXPIRED", absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kInFlight, "IN_FLIGHT", absl::StatusCode::kAborted},
    Entry{Reason::kOutcomeUnknown, "OUTCOME_UNKNOWN", absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kReservationLost, "RESERVATION_LOST", absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kOutcomeNotRecorded, "OUTCOME_NOT_RECORDED", absl::StatusCode::kUnavailable},
    Entry{Reason::kReplyNotKept, "REPLY_NOT_KEPT", absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kStoreUnavailable, "STORE_UNAVAILABLE", absl::StatusCode::kUnavailable},
    Entry{Reason::kQuotaExceeded, "QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted},
    Entry{Reason::kOverloaded, "OVERLOADED", absl::StatusCode::kResourceExhausted},
    Entry{Reason::kRequestInvalid, "REQUEST_INVALID", absl::StatusCode::kInvalidArgument},
    Entry{Reason::kFingerprintUnknown, "FINGERPRINT_UNKNOWN",
          absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kRecordNotFound, "RECORD_NOT_FOUND", absl::StatusCode::kNotFound},
    Entry{Reason::kRecordDamaged, "RECORD_DAMAGED", absl::StatusCode::kDataLoss},
    Entry{Reason::kRecordIdCollision, "RECORD_ID_COLLISION", absl::StatusCode::kInternal},
    Entry{Reason::kDownstreamRefused, "DOWNSTREAM_REFUSED", absl::StatusCode::kInternal},
    Entry{Reason::kCredentialsInvalid, "CREDENTIALS_INVALID", absl::StatusCode::kUnauthenticated},
    Entry{Reason::kAccessDenied, "ACCESS_DENIED", absl::StatusCode::kPermissionDenied},
    Entry{Reason::kRecordChanged, "RECORD_CHANGED", absl::StatusCode::kFailedPrecondition},
    Entry{Reason::kForceRequired, "FORCE_REQUIRED", absl::StatusCode::kFailedPrecondition},
};

constexpr bool IsInOrder() {
  for (std::size_t i = 0; i < kCatalogue.size(); ++i) {
    if (static_cast<std::size_t>(kCatalogue[i].reason) != i) return false;
  }
  return true;
}
static_assert(IsInOrder());

const Entry& EntryOf(Reason reason) { return kCatalogue[static_cast<std::size_t>(reason)]; }

void AddDetail(std::string_view type_url, const google::protobuf::Message& detail,
               wire::Status& status) {
  google::protobuf::Any& any = *status.add_details();
  any.set_type_url(std::string(type_url));
  any.set_value(detail.SerializeAsString());
}

wire::ErrorInfo ErrorInfoFor(Reason reason, const ErrorDetails& details) {
  wire::ErrorInfo info;
  info.set_reason(std::string(ReasonName(reason)));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : details.metadata) {
    (*info.mutable_metadata())[ToUtf8(key)] = ToUtf8(value);
  }
  return info;
}

wire::RetryInfo RetryInfoFor(absl::Duration delay) {
  wire::RetryInfo info;
  internal::ToWire(std::clamp(delay, absl::ZeroDuration(), kMaxProtoDuration),
                   *info.mutable_retry_delay());
  return info;
}

wire::BadRequest BadRequestFor(const std::vector<FieldViolation>& violations) {
  wire::BadRequest bad_request;
  for (const FieldViolation& violation : violations) {
    wire::BadRequest::FieldViolation& added = *bad_request.add_field_violations();
    added.set_field(ToUtf8(violation.field));
    added.set_description(ToUtf8(violation.description));
  }
  return bad_request;
}

std::optional<wire::Status> PayloadOf(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  const absl::optional<absl::Cord> payload = status.GetPayload(AbslView(kStatusPayloadUrl));
  if (!payload.has_value()) return std::nullopt;
  wire::Status parsed;
  // A payload that another library wrote may be anything.
  if (!parsed.ParseFromString(std::string(*payload))) return std::nullopt;
  return parsed;
}

// Only the last segment of a type URL names the type.
template <typename Detail>
bool Unpack(const google::protobuf::Any& any, std::string_view type_url, Detail& detail) {
  const std::string_view type = type_url.substr(type_url.rfind('/'));
  return absl::EndsWith(any.type_url(), AbslView(type)) && detail.ParseFromString(any.value());
}

std::optional<wire::ErrorInfo> CatalogueInfo(const wire::Status& status) {
  for (const google::protobuf::Any& any : status.details()) {
    wire::ErrorInfo info;
    if (Unpack(any, kErrorInfoUrl, info) && info.domain() == kErrorDomain &&
        ReasonFromName(info.reason()).has_value()) {
      return info;
    }
  }
  return std::nullopt;
}

}  // namespace

namespace internal {

bool HasErrorDomain(const std::string& details) {
  wire::Status status;
  if (!status.ParseFromString(details)) return false;
  return std::any_of(status.details().begin(), status.details().end(), [](const auto& any) {
    wire::ErrorInfo info;
    return Unpack(any, kErrorInfoUrl, info) && info.domain() == kErrorDomain;
  });
}

}  // namespace internal

std::vector<Reason> AllReasons() {
  std::vector<Reason> all;
  for (const Entry& entry : kCatalogue) all.push_back(entry.reason);
  return all;
}

std::string_view ReasonName(Reason reason) { return EntryOf(reason).name; }

std::optional<Reason> ReasonFromName(std::string_view name) {
  for (const Entry& entry : kCatalogue) {
    if (entry.name == name) return entry.reason;
  }
  return std::nullopt;
}

absl::StatusCode CodeOf(Reason reason) { return EntryOf(reason).code; }

absl::Status MakeError(Reason reason, std::string_view message, ErrorDetails details) {
  return MakeErrorWithCode(reason, CodeOf(reason), message, std::move(details));
}

absl::Status MakeErrorWithCode(Reason reason, absl::StatusCode code, std::string_view message,
                               ErrorDetails details) {
  wire::Status payload;
  payload.set_code(static_cast<int>(code));
  payload.set_message(ToUtf8(message));
  AddDetail(kErrorInfoUrl, ErrorInfoFor(reason, details), payload);
  if (details.retry_delay.has_value()) {
    AddDetail(kRetryInfoUrl, RetryInfoFor(*details.retry_delay), payload);
  }
  if (!details.violations.empty()) {
    AddDetail(kBadRequestUrl, BadRequestFor(details.violations), payload);
  }
  absl::Status status(code, payload.message());
  status.SetPayload(AbslView(kStatusPayloadUrl), absl::Cord(payload.SerializeAsString()));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view description) {
  ErrorDetails details;
  details.violations.push_back({std::string(field), std::string(description)});
  return MakeError(Reason::kRequestInvalid,
                   absl::StrCat(AbslView(field), ": ", AbslView(description)), std::move(details));
}

std::optional<Reason> ReasonOf(const absl::Status& status) {
  const std::optional<wire::Status> payload = PayloadOf(status);
  if (!payload.has_value()) return std::nullopt;
  const std::optional<wire::ErrorInfo> info = CatalogueInfo(*payload);
  return info.has_value() ? ReasonFromName(info->reason()) : std::nullopt;
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  const std::optional<wire::Status> payload = PayloadOf(status);
  if (!payload.has_value()) return details;
  const std::optional<wire::ErrorInfo> info = CatalogueInfo(*payload);
  if (!info.has_value()) return details;
  details.metadata.insert(info->metadata().begin(), info->metadata().end());
  for (const google::protobuf::Any& any : payload->details()) {
    wire::RetryInfo retry;
    wire::BadRequest bad_request;
    if (Unpack(any, kRetryInfoUrl, retry)) {
      details.retry_delay = internal::FromWire(retry.retry_delay());
    } else if (Unpack(any, kBadRequestUrl, bad_request)) {
      for (const wire::BadRequest::FieldViolation& violation : bad_request.field_violations()) {
        details.violations.push_back({violation.field(), violation.description()});
      }
    }
  }
  return details;
}

}  // namespace idempotency
