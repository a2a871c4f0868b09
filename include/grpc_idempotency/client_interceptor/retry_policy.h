#ifndef GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_RETRY_POLICY_H_
#define GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_RETRY_POLICY_H_

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status_code_enum.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace idempotency {

// gRPC's own retries (gRFC A6), configured for guarded methods. They obey the pushback of a
// guard's rejections. gRPC never retries, under any policy: a call whose server sent initial
// metadata before it failed (a guard's rejections send none), and a request over the buffer
// below. In-process channels have no retries.
struct RetryPolicy {
  // The total number of tries, 2-5: gRPC's maximum is 5.
  int max_attempts = 5;
  // Exponential with jitter: each over 0 and finite. A guard's grpc-retry-pushback-ms takes
  // precedence. 50 ms, 2 s and a factor of 2: the four pauses of five tries take some 0.75 s,
  // enough for a failed connection or a short lock; CallWithRetries() is for longer outages.
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double backoff_multiplier = 2.0;
  // UNAVAILABLE: no answer, or STORE_UNAVAILABLE. ABORTED: IN_FLIGHT and
  // RESERVATION_LOST, whose retry finds the winner's reply.
  // RESOURCE_EXHAUSTED: OVERLOADED and QUOTA_EXCEEDED.
  std::set<grpc::StatusCode> retryable = {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED,
                                          grpc::StatusCode::RESOURCE_EXHAUSTED};
  // Stops retries while many calls fail (gRPC's retry throttling), so that they do not keep an
  // overloaded server down. The channels of a process to one target share its tokens, at first
  // max_tokens. A try that fails with a code of `retryable` takes one, so also IN_FLIGHT
  // (ABORTED), under which nothing is overloaded; a try that succeeds adds token_ratio. Nothing is
  // retried while no more than half of the tokens are left. nullopt: no throttle.
  //
  // The price: a throttled call ends with the status of its last try, and the operation may have
  // happened. The interceptor's key is gone with the call, and another call is another operation:
  // use it where the application keeps the keys (WithKey, CallWithRetries).
  struct Throttle {
    // 1-1000.
    int max_tokens = 0;
    // 0.001-1000, with at most three decimals. 0.1: ten successes pay for one failure.
    double token_ratio = 0;
  };
  std::optional<Throttle> throttle;
  // The maximum size of a request that is retried, under 2 GiB; gRPC's own default is 256 KiB. 4
  // MiB: gRPC's default limit for a message that is received, so that no accepted request is left
  // out.
  std::size_t per_rpc_retry_buffer_bytes = 4 * 1024 * 1024;
};

// The service config (JSON) that retries guarded methods and no others. A call that no guard
// protects runs once for each try, so a method is retried only if
//   - a repeat does no harm: its idempotency_level is NO_SIDE_EFFECTS or
//     IDEMPOTENT; or
//   - its calls carry a key and its server guards it: its proto has the option
//     (idempotency.v1.policy), or `guarded` names its service
//     ("payments.v1.Payments") or the method itself
//     ("payments.v1.Payments/Charge").
// If `guarded` has names, only the named methods are retried; if it is empty, the protos linked
// into this program decide. A service whose proto is not linked in must be named, and is then
// retried as a whole.
//
// Roll the guard out first (docs/rollout.md): this function trusts an option in a proto, or a
// name here, and does not check that the server guards the method.
//
// INVALID_ARGUMENT for a policy that gRPC would refuse, for an invalid name, and for a named
// method whose calls carry no key.
absl::StatusOr<std::string> ServiceConfigJson(const RetryPolicy& policy,
                                              const std::set<std::string>& guarded = {});

// Channel arguments with that config, retries on, and the buffer size set. Aborts if
// ServiceConfigJson fails: both parameters are constants of the program. gRPC ignores the config
// where the name resolver returns one, as for xds:/// always: put the retry policy of the guarded
// methods into their routes then, or use CallWithRetries.
grpc::ChannelArguments RetryingChannelArguments(const RetryPolicy& policy = {},
                                                const std::set<std::string>& guarded = {});

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_INTERCEPTOR_RETRY_POLICY_H_
