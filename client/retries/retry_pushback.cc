#include "client/retries/retry_pushback.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

#include "core/wire_time.h"
#include "grpc_idempotency/idempotency_key.h"
#include "idempotency/wire/rpc_status.pb.h"

namespace idempotency::internal {
namespace {

absl::Duration RetryInfoOf(const grpc::Status& status) {
  wire::Status parsed;
  if (!parsed.ParseFromString(status.error_details())) return absl::ZeroDuration();
  for (const google::protobuf::Any& any : parsed.details()) {
    wire::RetryInfo info;
    // Only the last segment of a type URL names the type.
    if (absl::EndsWith(any.type_url(), "/google.rpc.RetryInfo") &&
        info.ParseFromString(any.value())) {
      return FromWire(info.retry_delay());
    }
  }
  return absl::ZeroDuration();
}

}  // namespace

RetryPushback RetryPushbackOf(const grpc::Status& status, const grpc::ClientContext& context) {
  RetryPushback pause;
  pause.least = std::max(RetryInfoOf(status), absl::ZeroDuration());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find(std::string(kPushbackMetadata));
  if (pushback == trailers.end()) return pause;
  std::int64_t milliseconds = 0;
  const absl::string_view value(pushback->second.data(), pushback->second.size());
  pause.forbidden = !absl::SimpleAtoi(value, &milliseconds) || milliseconds < 0;
  pause.least = std::max(pause.least, absl::Milliseconds(milliseconds));
  return pause;
}

}  // namespace idempotency::internal
