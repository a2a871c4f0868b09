#ifndef IDEMPOTENCY_CLIENT_RETRIES_RETRY_LOOP_H_
#define IDEMPOTENCY_CLIENT_RETRIES_RETRY_LOOP_H_

#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/deadline.h"

namespace idempotency::internal {

// The clock of a call's deadline and pauses.
struct RetryTime {
  const Clock& clock = Clock::System();
  // Replaces the pause; empty: a real pause, which a RetryCanceller
  // ends.
  std::function<void(absl::Duration)> sleep = nullptr;
};

// CallWithRetries with the caller's clock.
grpc::Status CallWithRetries(std::string_view key, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries, const RetryTime& time);
grpc::Status CallWithRetries(KeyStore& keys, std::string_view work, SteadyTime deadline,
                             const std::function<absl::StatusOr<bool>()>& is_done,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const std::function<bool(const grpc::Status&)>& settle,
                             const CallRetries& retries, const RetryTime& time);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_RETRIES_RETRY_LOOP_H_
