#include "grpc_idempotency/client_interceptor/retry_policy.h"

#include <grpc/grpc.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/time_util.h"

#include "core/fatal.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/client/retried_methods.h"

namespace idempotency {

using internal::RetriedMethods;
using internal::RetriedName;

namespace {

// gRPC's own bound on a duration in a service config: that of duration.proto, about 10,000 years.
constexpr absl::Duration kMaxJsonDuration =
    absl::Seconds(google::protobuf::util::TimeUtil::kDurationMaxSeconds);

// gRFC A6.
constexpr int kMaxThrottleTokens = 1000;
// Of a number with three decimals, in thousandths.
constexpr double kRoundingError = 1e-6;

// True for the codes that a service config may name: gRPC's, but OK.
bool IsErrorCode(grpc::StatusCode code) {
  return code != grpc::StatusCode::OK && !StatusCodeName(code).empty();
}

absl::Status ValidateBackoff(std::string_view field, absl::Duration backoff) {
  // gRPC's resolution is a nanosecond; a shorter duration would be written as zero.
  if (backoff >= absl::Nanoseconds(1) && backoff <= kMaxJsonDuration) return absl::OkStatus();
  return InvalidField(field, "must be positive and finite");
}

absl::Status ValidateThrottle(const RetryPolicy::Throttle& throttle) {
  if (throttle.max_tokens < 1 || throttle.max_tokens > kMaxThrottleTokens) {
    return InvalidField("throttle.max_tokens", absl::StrCat("must be 1 to ", kMaxThrottleTokens));
  }
  const double thousandths = throttle.token_ratio * 1000;
  // More than the maximum of tokens has no effect.
  if (!(std::round(thousandths) >= 1) || throttle.token_ratio > kMaxThrottleTokens) {
    return InvalidField("throttle.token_ratio",
                        absl::StrCat("must be 0.001 to ", kMaxThrottleTokens));
  }
  // gRPC ignores further decimals.
  if (std::abs(thousandths - std::round(thousandths)) > kRoundingError) {
    return InvalidField("throttle.token_ratio", "must have at most three decimals");
  }
  return absl::OkStatus();
}

absl::Status Validate(const RetryPolicy& policy) {
  if (policy.max_attempts < 2 || policy.max_attempts > 5) {
    return InvalidField("max_attempts", "must be 2 to 5");
  }
  if (auto status = ValidateBackoff("initial_backoff", policy.initial_backoff); !status.ok()) {
    return status;
  }
  if (auto status = ValidateBackoff("max_backoff", policy.max_backoff); !status.ok()) {
    return status;
  }
  if (!(policy.backoff_multiplier > 0) || std::isinf(policy.backoff_multiplier)) {
    return InvalidField("backoff_multiplier", "must be positive and finite");
  }
  if (policy.retryable.empty()) return InvalidField("retryable", "must name a status code");
  for (const grpc::StatusCode code : policy.retryable) {
    if (!IsErrorCode(code)) return InvalidField("retryable", "must hold error codes only");
  }
  if (policy.throttle) {
    if (auto status = ValidateThrottle(*policy.throttle); !status.ok()) return status;
  }
  if (policy.per_rpc_retry_buffer_bytes >
      static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return InvalidField("per_rpc_retry_buffer_bytes", "must be under 2 GiB");
  }
  return absl::OkStatus();
}

std::string JsonDuration(absl::Duration duration) {
  const std::int64_t seconds = absl::ToInt64Seconds(duration);
  const std::int64_t nanos = absl::ToInt64Nanoseconds(duration - absl::Seconds(seconds));
  return absl::StrFormat("\"%d.%09ds\"", seconds, nanos);
}

// The member of the service config, after a comma; "" for none.
std::string ThrottleJson(const std::optional<RetryPolicy::Throttle>& throttle) {
  if (!throttle) return "";
  return absl::StrCat(",\"retryThrottling\":{\"maxTokens\":", throttle->max_tokens,
                      ",\"tokenRatio\":", absl::StrFormat("%.3f", throttle->token_ratio), "}");
}

}  // namespace

absl::StatusOr<std::string> ServiceConfigJson(const RetryPolicy& policy,
                                              const std::set<std::string>& guarded) {
  if (auto status = Validate(policy); !status.ok()) return status;
  const absl::StatusOr<std::set<RetriedName>> retried = RetriedMethods(guarded);
  if (!retried.ok()) return retried.status();
  // gRPC rejects an empty list of names, and an empty name means every method.
  if (retried->empty()) return "{\"methodConfig\":[]}";
  std::vector<std::string> names;
  for (const RetriedName& name : *retried) {
    names.push_back(name.method.empty() ? absl::StrCat("{\"service\":\"", name.service, "\"}")
                                        : absl::StrCat("{\"service\":\"", name.service,
                                                       "\",\"method\":\"", name.method, "\"}"));
  }
  std::vector<std::string> codes;
  for (const grpc::StatusCode code : policy.retryable) {
    codes.push_back(absl::StrCat("\"", StatusCodeName(code), "\""));
  }
  return absl::StrCat("{\"methodConfig\":[{\"name\":[", absl::StrJoin(names, ","),
                      "],\"retryPolicy\":{\"maxAttempts\":", policy.max_attempts,
                      ",\"initialBackoff\":", JsonDuration(policy.initial_backoff),
                      ",\"maxBackoff\":", JsonDuration(policy.max_backoff),
                      ",\"backoffMultiplier\":", absl::StrFormat("%f", policy.backoff_multiplier),
                      ",\"retryableStatusCodes\":[", absl::StrJoin(codes, ","), "]}}]",
                      ThrottleJson(policy.throttle), "}");
}

grpc::ChannelArguments RetryingChannelArguments(const RetryPolicy& policy,
                                                const std::set<std::string>& guarded) {
  const auto config = ServiceConfigJson(policy, guarded);
  if (!config.ok()) {
    internal::Fatal(absl::StrCat("RetryingChannelArguments: ", config.status().ToString()));
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 1);
  arguments.SetServiceConfigJSON(*config);
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE,
                   static_cast<int>(policy.per_rpc_retry_buffer_bytes));
  return arguments;
}

}  // namespace idempotency
