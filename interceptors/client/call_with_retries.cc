#include "interceptors/client/call_with_retries.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <random>
#include <thread>

#include "absl/status/status.h"

#include "core/errors.h"
#include "core/grpc_status.h"
#include "interceptors/client/client_interceptor.h"

namespace idempotency {
namespace {

void Sleep(const CallRetries& retries, absl::Duration pause) {
  if (retries.sleep) {
    retries.sleep(pause);
  } else {
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(pause));
  }
}

// Growing pauses with jitter. Half of a pause is random: clients that were cut
// off together must not come back together.
class Backoff {
 public:
  explicit Backoff(const CallRetries& retries)
      : retries_(retries), next_(retries.initial_backoff) {}

  absl::Duration Next(const grpc::Status& failure) {
    const absl::Duration half = std::min(next_, retries_.max_backoff) / 2;
    next_ = std::min(next_ * retries_.backoff_multiplier, retries_.max_backoff);
    const absl::Duration jitter = half * fraction_(random_);
    const auto asked = DetailsOf(FromGrpcStatus(failure)).retry_delay;
    return std::max(half, asked.value_or(absl::ZeroDuration())) + jitter;
  }

 private:
  const CallRetries& retries_;
  absl::Duration next_;
  std::minstd_rand random_{std::random_device{}()};
  std::uniform_real_distribution<double> fraction_{0.0, 1.0};
};

// A try's deadline, on gRPC's monotonic clock, so that a step of the wall clock
// moves nothing. A year stands for everything longer: further out, the wall
// clock of ClientContext::deadline() overflows.
gpr_timespec TryDeadline(absl::Duration remaining, const CallRetries& retries) {
  const absl::Duration timeout = std::min({remaining, retries.try_timeout, absl::Hours(24 * 365)});
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

}  // namespace

grpc::Status CallWithRetries(std::string_view key, std::chrono::steady_clock::time_point deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries) {
  grpc::Status last(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline had passed before any try");
  Backoff backoff(retries);
  for (;;) {
    const absl::Duration remaining = absl::FromChrono(deadline - retries.clock->Monotonic());
    if (remaining <= absl::ZeroDuration()) return last;
    grpc::ClientContext context;
    context.set_deadline(TryDeadline(remaining, retries));
    if (const auto pinned = WithKey(context, key); !pinned.ok()) return ToGrpcStatus(pinned);
    last = call(context);
    if (retries.retryable.count(last.error_code()) == 0) return last;
    const absl::Duration pause = backoff.Next(last);
    // Nothing could be tried after it.
    if (retries.clock->Monotonic() + absl::ToChronoNanoseconds(pause) >= deadline) return last;
    Sleep(retries, pause);
  }
}

}  // namespace idempotency
