#include "client/call_with_retries.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/decorrelated_backoff.h"
#include "client/pinned_key.h"
#include "client/retry_rule.h"
#include "client/server_pause.h"
#include "core/deadline.h"
#include "core/grpc_status.h"

namespace idempotency {
namespace {

// Zero or less once `deadline` has passed.
absl::Duration Remaining(SteadyTime deadline, const Clock& clock) {
  return TimeUntil(deadline, clock.Monotonic());
}

// A year stands for everything longer: further out, the wall clock of
// ClientContext::deadline() overflows.
gpr_timespec TryDeadline(absl::Duration remaining, const CallRetries& retries) {
  return GrpcDeadlineIn(std::min({remaining, retries.try_timeout, absl::Hours(24 * 365)}));
}

void Pause(const CallRetries& retries, RetryStopper& stopper, absl::Duration pause) {
  if (retries.sleep) {
    retries.sleep(pause);
  } else {
    stopper.Pause(pause);
  }
}

}  // namespace

grpc::Status CallWithRetries(std::string_view key, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries) {
  RetryStopper never_stopped;
  RetryStopper& stopper = retries.stopper != nullptr ? *retries.stopper : never_stopped;
  if (stopper.stopped()) return {grpc::StatusCode::CANCELLED, "stopped before any try"};
  grpc::Status last(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline had passed before any try");
  DecorrelatedBackoff backoff(retries.min_backoff, retries.max_backoff);
  if (retries.budget != nullptr) retries.budget->AddCall();
  while (!stopper.stopped()) {
    const absl::Duration remaining = Remaining(deadline, *retries.clock);
    if (remaining <= absl::ZeroDuration()) return last;
    grpc::ClientContext context;
    context.set_deadline(TryDeadline(remaining, retries));
    if (const auto pinned = WithKey(context, key); !pinned.ok()) return ToGrpcStatus(pinned);
    {
      const RetryStopper::RunningTry running(stopper, context);
      last = call(context);
    }
    if (!IsWorthARetry(last, retries.also_retried)) return last;
    const ServerPause asked = ServerPauseOf(last, context);
    if (asked.forbidden || stopper.stopped()) return last;
    const absl::Duration pause = backoff.Next(asked.least);
    // Nothing could be tried after it.
    if (pause >= Remaining(deadline, *retries.clock)) return last;
    if (retries.budget != nullptr && !retries.budget->TakeRetry()) return last;
    Pause(retries, stopper, pause);
  }
  return last;
}

grpc::Status CallWithRetries(KeyStore& keys, std::string_view work, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const std::function<bool(const grpc::Status&)>& settle,
                             const CallRetries& retries) {
  const absl::StatusOr<std::string> key = keys.KeyFor(work);
  if (!key.ok()) return ToGrpcStatus(key.status());
  const grpc::Status status = CallWithRetries(*key, deadline, call, retries);
  if (IsWorthARetry(status, retries.also_retried)) return status;
  // A key that stays is only found again; see KeyStore::Unfinished().
  if (settle(status)) keys.Forget(work, *key).IgnoreError();
  return status;
}

}  // namespace idempotency
