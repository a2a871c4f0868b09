#include "grpc_idempotency/grpc_status.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

#include "core/absl_view.h"
#include "core/status_payload.h"
#include "grpc_idempotency/errors.h"

namespace idempotency {

using internal::AbslView;
using internal::kStatusPayloadUrl;

grpc::StatusCode StatusCodeFrom(int number) {
  if (number < grpc::StatusCode::OK || number > grpc::StatusCode::UNAUTHENTICATED) {
    return grpc::StatusCode::UNKNOWN;
  }
  return static_cast<grpc::StatusCode>(number);
}

std::string StatusCodeName(grpc::StatusCode code) {
  // absl's codes are gRPC's, number for number.
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::optional<absl::Cord> payload = status.GetPayload(AbslView(kStatusPayloadUrl));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      payload.has_value() ? std::string(*payload) : std::string());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // absl's codes are gRPC's, number for number.
  const auto code = static_cast<absl::StatusCode>(StatusCodeFrom(status.error_code()));
  absl::Status result(code, status.error_message());
  // Kept unchanged, from any author: reading them validates them.
  if (!status.error_details().empty()) {
    result.SetPayload(AbslView(kStatusPayloadUrl), absl::Cord(status.error_details()));
  }
  return result;
}

std::optional<std::string> PushbackOf(const absl::Status& status) {
  const std::optional<absl::Duration> delay = DetailsOf(status).retry_delay;
  if (!delay.has_value()) return std::nullopt;
  // Rounded up, so that no caller retries too early. gRPC reads an int32, and
  // treats anything else as "do not retry".
  const std::int64_t millis = absl::ToInt64Milliseconds(absl::Ceil(*delay, absl::Milliseconds(1)));
  constexpr std::int64_t kMostMillis = std::numeric_limits<std::int32_t>::max();
  return std::to_string(std::clamp<std::int64_t>(millis, 1, kMostMillis));
}

bool ProvesNothing(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::UNIMPLEMENTED:
      return true;
    default:
      return false;
  }
}

namespace {

// RESOURCE_EXHAUSTED has many causes; the texts are the same in all versions.
bool IsExhausted(const grpc::Status& status, std::string_view text) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_message().find(text) != std::string::npos;
}

}  // namespace

bool IsOverSendLimit(const grpc::Status& status) {
  return IsExhausted(status, "Sent message larger than max");
}

bool IsOverReceiveLimit(const grpc::Status& status) {
  // "limit" follows the second; in later versions of gRPC also "soft limit", "hard limit".
  return IsExhausted(status, "Received message larger than max") ||
         IsExhausted(status, "metadata size exceeds ");
}

}  // namespace idempotency
