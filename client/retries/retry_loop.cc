#include "client/retries/retry_loop.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/retries/cancellable_tries.h"
#include "client/retries/decorrelated_backoff.h"
#include "client/retries/outcome_rule.h"
#include "client/retries/retry_pushback.h"
#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/client/retry_rule.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// Zero or less once `deadline` has passed.
absl::Duration Remaining(SteadyTime deadline, const Clock& clock) {
  return TimeUntil(deadline, clock.Monotonic());
}

// A year replaces any longer time: beyond it the wall clock of
// ClientContext::deadline() overflows.
gpr_timespec TryDeadline(absl::Duration remaining, const CallRetries& retries) {
  return GrpcDeadlineIn(std::min({remaining, retries.try_timeout, absl::Hours(24 * 365)}));
}

void Pause(const RetryTime& time, CancellableTries& tries, absl::Duration pause) {
  if (time.sleep) {
    time.sleep(pause);
  } else {
    tries.Pause(pause);
  }
}

grpc::Status CancelledBefore() {
  return {grpc::StatusCode::CANCELLED, "cancelled before the first attempt"};
}

grpc::Status PassedBefore() {
  return {grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline passed before the first attempt"};
}

struct Ended {
  grpc::Status status;
  // `status` is the operation's outcome.
  bool outcome = false;
};

Ended Try(std::string_view key, SteadyTime deadline,
          const std::function<grpc::Status(grpc::ClientContext&)>& call, const CallRetries& retries,
          const RetryTime& time) {
  CancellableTries never_cancelled;
  CancellableTries& cancellable =
      retries.canceller != nullptr ? CancellableTries::Of(*retries.canceller) : never_cancelled;
  if (cancellable.cancelled()) return {CancelledBefore()};
  grpc::Status last = PassedBefore();
  DecorrelatedBackoff backoff(retries.min_backoff, retries.max_backoff);
  if (retries.budget != nullptr) retries.budget->AddCall();
  while (!cancellable.cancelled()) {
    const absl::Duration remaining = Remaining(deadline, time.clock);
    if (remaining <= absl::ZeroDuration()) return {last};
    grpc::ClientContext context;
    context.set_deadline(TryDeadline(remaining, retries));
    if (const auto pinned = WithKey(context, key); !pinned.ok()) {
      // No try and no run has sent this key.
      return {ToGrpcStatus(pinned), /*outcome=*/true};
    }
    {
      const CancellableTries::Running running(cancellable, context);
      last = call(context);
    }
    const Trailers& trailers = context.GetServerTrailingMetadata();
    if (IsReplayed(last, trailers)) return {last, /*outcome=*/true};
    if (!IsRetryable(last, retries.also_retried)) return {last, IsOutcome(last, trailers)};
    const RetryPushback requested = RetryPushbackOf(last, context);
    if (requested.forbidden || cancellable.cancelled()) return {last};
    const absl::Duration pause = backoff.Next(requested.least);
    // Nothing could be tried after it.
    if (pause >= Remaining(deadline, time.clock)) return {last};
    if (retries.budget != nullptr && !retries.budget->TakeRetry()) return {last};
    Pause(time, cancellable, pause);
  }
  return {last};
}

}  // namespace

grpc::Status CallWithRetries(std::string_view key, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries, const RetryTime& time) {
  return Try(key, deadline, call, retries, time).status;
}

grpc::Status CallWithRetries(KeyStore& keys, std::string_view work, SteadyTime deadline,
                             const std::function<absl::StatusOr<bool>()>& is_done,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const std::function<bool(const grpc::Status&)>& settle,
                             const CallRetries& retries, const RetryTime& time) {
  // Try() checks both again: KeyFor and `is_done` may block.
  if (retries.canceller != nullptr && CancellableTries::Of(*retries.canceller).cancelled()) {
    return CancelledBefore();
  }
  if (Remaining(deadline, time.clock) <= absl::ZeroDuration()) return PassedBefore();
  const absl::StatusOr<std::string> key = keys.KeyFor(work);
  if (!key.ok()) return ToGrpcStatus(key.status());
  // After KeyFor: who forgets a key has settled its work before, so a key that replaces a
  // forgotten one is never sent.
  const absl::StatusOr<bool> done = is_done();
  if (!done.ok()) return ToGrpcStatus(done.status());
  if (*done) {
    keys.Forget(work, *key).IgnoreError();
    return grpc::Status::OK;
  }
  const Ended ended = Try(*key, deadline, call, retries, time);
  // A key that remains is merely found again; see KeyStore::Unfinished().
  if (ended.outcome && settle(ended.status)) keys.Forget(work, *key).IgnoreError();
  return ended.status;
}

}  // namespace idempotency::internal
