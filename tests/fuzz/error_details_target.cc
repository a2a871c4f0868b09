// `grpc-status-details-bin` of any server. The first byte is the status code, the next block the
// message, the rest the details.
#include <grpcpp/support/status.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr int kCodes = 20;  // three more than gRPC has

bool Same(const ErrorDetails& a, const ErrorDetails& b) {
  if (a.retry_delay != b.retry_delay || a.metadata != b.metadata) return false;
  if (a.violations.size() != b.violations.size()) return false;
  for (std::size_t i = 0; i < a.violations.size(); ++i) {
    if (a.violations[i].field != b.violations[i].field) return false;
    if (a.violations[i].description != b.violations[i].description) return false;
  }
  return true;
}

void RequireGoodPushback(const absl::Status& status) {
  const std::optional<std::string> pushback = PushbackOf(status);
  Require(pushback.has_value() == DetailsOf(status).retry_delay.has_value(),
          "a delay is a pushback");
  std::int64_t millis = 0;
  Require(!pushback || (absl::SimpleAtoi(*pushback, &millis) && millis >= 1 &&
                        millis <= std::numeric_limits<std::int32_t>::max()),
          "gRPC can read the pushback, and retries");
}

}  // namespace

void ErrorDetailsOnWire(std::string_view bytes) {
  Input input(bytes);
  const auto code = static_cast<grpc::StatusCode>(input.Byte() % kCodes);
  const std::string message(input.Block());
  const std::string details(input.Rest());
  const absl::Status status = FromGrpcStatus(grpc::Status(code, message, details));
  Require(status.ok() == (code == grpc::StatusCode::OK), "an error is no success");
  if (status.ok()) return;

  const grpc::Status on_wire = ToGrpcStatus(status);
  Require(on_wire.error_message() == message && on_wire.error_details() == details,
          "an error is passed on as it came");
  RequireGoodPushback(status);
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason) {
    Require(Same(DetailsOf(status), {}), "an error of others has no details of ours");
    return;
  }
  // Details that this project wrote are read back unchanged.
  const absl::Status made = MakeErrorWithCode(*reason, status.code(), message, DetailsOf(status));
  Require(ReasonOf(made) == reason, "a reason survives");
  const absl::Status again = MakeErrorWithCode(*reason, status.code(), message, DetailsOf(made));
  Require(Same(DetailsOf(again), DetailsOf(made)), "details survive");
  RequireGoodPushback(made);
}

}  // namespace idempotency::internal::fuzz
