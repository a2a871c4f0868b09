#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_CALL_WITH_RETRIES_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_CALL_WITH_RETRIES_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <set>
#include <string_view>

#include "absl/time/time.h"

#include "core/clock.h"

namespace idempotency {

// How CallWithRetries repeats a call.
struct CallRetries {
  // How long one try may take. 10 s: a guarded method that waits for a running
  // attempt answers well within it.
  absl::Duration try_timeout = absl::Seconds(10);
  // The pause after the first failure; it grows by `backoff_multiplier`, and
  // half of each pause is random. A status with google.rpc.RetryInfo sets the
  // least that its pause lasts.
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(10);
  double backoff_multiplier = 2.0;
  // Those of RetryPolicy, and DEADLINE_EXCEEDED: the next try finds the reply
  // of the one that was too slow.
  std::set<grpc::StatusCode> retryable = {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED,
                                          grpc::StatusCode::RESOURCE_EXHAUSTED,
                                          grpc::StatusCode::DEADLINE_EXCEEDED};

  // For tests. Must outlive the call.
  const Clock* clock = &Clock::System();
  // Blocks for that long; empty is the calling thread's own sleep.
  std::function<void(absl::Duration)> sleep;
};

// Repeats one unary call with one key until it is answered with something that
// `retries.retryable` does not name, or `deadline` would pass first: for
// windows longer than gRPC's five attempts, such as a deployment of the
// server. `key` is what makes the tries one operation: keep it with the work,
// so that another process can go on with it.
//
//   payments::v1::ChargeReply reply;
//   grpc::Status status = CallWithRetries(
//       order.idempotency_key(), std::chrono::steady_clock::now() + std::chrono::minutes(10),
//       [&](grpc::ClientContext& context) { return stub->Charge(&context, request, &reply); });
//
// Each try gets a context of its own, with the key pinned and a deadline set;
// `call` may add to it and makes the call once. Returns the last try's status
// (so a passed deadline shows why nothing worked), or
// INVALID_ARGUMENT / KEY_INVALID without a try for a key that no guard would
// take, or DEADLINE_EXCEEDED without a try if `deadline` has passed already.
//
// Blocks. Thread-safe as far as `call` is.
grpc::Status CallWithRetries(std::string_view key, std::chrono::steady_clock::time_point deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries = {});

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_CALL_WITH_RETRIES_H_
