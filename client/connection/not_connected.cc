#include "client/connection/not_connected.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

constexpr char kCause[] = "cause";
constexpr char kNotConnected[] = "NOT_CONNECTED";

}  // namespace

absl::Status NotConnected() {
  ErrorDetails details = RetryAfter(retry_delays::kReconnection);
  details.metadata[kCause] = kNotConnected;
  return MakeError(
      Reason::kStoreUnavailable,
      "idempotencyd cannot be reached, and nothing was sent: repeat the call with the same "
      "tokens",
      std::move(details));
}

bool IsNotConnected(const absl::Status& status) {
  if (ReasonOf(status) != Reason::kStoreUnavailable) return false;
  const ErrorDetails details = DetailsOf(status);
  const auto cause = details.metadata.find(kCause);
  return cause != details.metadata.end() && cause->second == kNotConnected;
}

}  // namespace idempotency::internal
