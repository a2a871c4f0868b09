#ifndef GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_RETRY_POLICY_H_
#define GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_RETRY_POLICY_H_

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status_code_enum.h>

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace idempotency {

// gRPC's own retries (gRFC A6), set up for guarded methods. They obey the
// pushback of a guard's rejections. What gRPC does not retry, whatever the
// policy says: a call whose server sent initial metadata before it failed (a
// guard's rejections send none), and a request over the buffer below.
// In-process channels have no retries.
struct RetryPolicy {
  // Tries in all, 2-5: gRPC takes no more than 5.
  int max_attempts = 5;
  // Exponential with jitter; a guard's grpc-retry-pushback-ms comes first.
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double backoff_multiplier = 2.0;
  // UNAVAILABLE: no answer, or STORE_UNAVAILABLE. ABORTED: IN_FLIGHT and
  // RESERVATION_LOST, whose retry finds the winner's reply.
  // RESOURCE_EXHAUSTED: OVERLOADED.
  std::set<grpc::StatusCode> retryable = {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED,
                                          grpc::StatusCode::RESOURCE_EXHAUSTED};
  // What a request may weigh and still be retried; gRPC's own default is
  // 256 KiB.
  std::size_t per_rpc_retry_buffer_bytes = 4 * 1024 * 1024;
};

// The service config (JSON) that retries guarded methods and no other. A call
// that no guard protects runs once for each try, so a method is retried only if
//   - a repeat does no harm: its idempotency_level is NO_SIDE_EFFECTS or
//     IDEMPOTENT; or
//   - its calls carry a key and its server guards it: its proto has the option
//     (idempotency.v1.policy), or `guarded` names its service
//     ("payments.v1.Payments") or the method itself
//     ("payments.v1.Payments/Charge").
// With names only what is named is retried; without any, what the protos that
// are linked into this program say. A service whose proto is not linked in must
// be named, and is then retried as a whole.
//
// Roll the guard out first (docs/rollout.md): to an option in a proto, or a name
// here, this takes your word that the server guards it.
//
// INVALID_ARGUMENT for a policy that gRPC would refuse, for a name that cannot
// be one, and for a named method whose calls carry no key.
absl::StatusOr<std::string> ServiceConfigJson(const RetryPolicy& policy,
                                              const std::set<std::string>& guarded = {});

// Channel arguments with that config, retries on, and the buffer size set.
// Aborts where ServiceConfigJson fails: both are constants of the program.
grpc::ChannelArguments RetryingChannelArguments(const RetryPolicy& policy = {},
                                                const std::set<std::string>& guarded = {});

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_RETRY_POLICY_H_
