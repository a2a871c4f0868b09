#ifndef GRPC_IDEMPOTENCY_CLIENT_CALL_WITH_RETRIES_H_
#define GRPC_IDEMPOTENCY_CLIENT_CALL_WITH_RETRIES_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <set>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/client/key_store.h"
#include "grpc_idempotency/client/retry_budget.h"
#include "grpc_idempotency/client/retry_canceller.h"
#include "grpc_idempotency/deadline.h"

namespace idempotency {

// The options of CallWithRetries. A value type.
struct CallRetries {
  // The timeout of one try, over 0, at most a year. 10 s: a guarded method that waits for a running
  // attempt answers well within it.
  absl::Duration try_timeout = absl::Seconds(10);
  // The bounds of the random pauses between tries: min_backoff 1 ms to 1 h, max_backoff from
  // min_backoff to a year; a value outside counts as the bound. 100 ms: the gap of a
  // rolling restart is of that order. 10 s: the maximum delay until a recovered server is
  // noticed. A longer delay that the server requests (google.rpc.RetryInfo, or the trailer
  // grpc-retry-pushback-ms) takes precedence.
  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(10);
  // Codes that are retried in addition to IsRetryable()'s own, if the status has no reason of
  // the catalogue and no guard has recorded it: ABORTED and RESOURCE_EXHAUSTED, if the service
  // documents them as temporary.
  std::set<grpc::StatusCode> also_retried;
  // Bounds the retries of all calls that share it. Name the called service:
  //   retries.budget = &RetryBudget::ForService(payments::v1::Payments::service_full_name());
  // Null: the deadline is the only bound.
  RetryBudget* budget = &RetryBudget::ForService("");
  // Ends the call early. Null: only the deadline ends it.
  RetryCanceller* canceller = nullptr;
};

// Repeats one unary call to a guarded method, with one key, until it gets a status that is an
// answer (IsRetryable() is false): for outages longer than gRPC's five attempts, such as a
// deployment of the server. `key` makes the tries one operation: store it with the work, so
// that another process can continue it. `call` must send the same request on every try.
//
//   payments::v1::ChargeReply reply;
//   grpc::Status status = CallWithRetries(
//       order.idempotency_key(), DeadlineIn(absl::Minutes(10)),
//       [&](grpc::ClientContext& context) { return stub->Charge(&context, request, &reply); });
//
// Each try gets its own context, with the key and a deadline set; `call` may add to it and
// makes the call once. A try that `call` itself cancels counts as failed: to end all tries, use
// a RetryCanceller.
//
// Returns the last try's status, also when the tries end without an answer: the next pause
// would pass `deadline`, the budget is empty, the server's pushback forbids another try, or the
// canceller was used. Such a status is indefinite: the operation may have happened, and a later
// call with the same key finds out.
//
// A status that is not retried can be indefinite too. Only OK, and a status that a guard has
// recorded (idempotency-replayed, or idempotency-record with idempotency-expires, in the trailers
// of `context`), is certainly the operation's own. A bare UNAUTHENTICATED, PERMISSION_DENIED or
// RESOURCE_EXHAUSTED may be a proxy's, after an earlier try whose answer was lost; gRPC itself
// returns RESOURCE_EXHAUSTED for a reply over a receive limit of the channel (IsOverReceiveLimit(),
// the same key gets it over a channel with a higher limit). After KEY_EXPIRED, KEY_REUSED,
// OUTCOME_UNKNOWN, REPLY_NOT_KEPT, and a KEY_INVALID or REQUEST_INVALID of a key that an earlier
// call has sent, the caller has to find out. Keep the key until then: a new
// key is a second operation. The overload with a KeyStore does.
//
// Without a try:
//   INVALID_ARGUMENT / KEY_INVALID  no guard would accept the key
//   DEADLINE_EXCEEDED               `deadline` has already passed
//   CANCELLED                       the canceller was already used
//
// On a channel whose own retries are on, each try is up to five: the pauses and the budget
// count tries. Turn them off (GRPC_ARG_ENABLE_RETRIES 0) if every call uses this function.
//
// Only for methods that a guard protects, or that are idempotent by nature: it repeats a call
// whose answer was lost. Blocks. Thread-safe if `call` is.
grpc::Status CallWithRetries(std::string_view key, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries = {});

// The same for work that must survive a restart of this process: the key of `work` comes from
// `keys`, which stores it durably before it is first sent, and forgets it only when the work is
// done.
//
// `is_done` reads, from the application's own database, whether `settle` has already recorded
// this work. It is called once, after the key is stored and before the first try. Another process
// may have settled the work and forgotten its key after this one found it unfinished: the key is
// then a new one, and a call with it would be a second operation. If it returns true, nothing is
// sent, the key is forgotten, `settle` is not called, and the result is OK, whatever outcome was
// recorded; what `call` fills stays as it is. If it fails (the database cannot be read), nothing
// is sent and the key is kept. It must see what every process has committed: not a replica that
// lags, and no cache.
//
// `settle` receives the outcome, and records it where the application looks before it starts
// such work again. It returns true once that is durable: the key is then forgotten. False keeps
// the key, and the next run of this work gets the same answer. The outcome is one of:
//   OK                       it happened
//   a status without a reason of the catalogue that a guard has recorded (by its trailers
//                            idempotency-replayed, or idempotency-record with
//                            idempotency-expires): the method's own failure
//   KEY_INVALID              no guard would accept the key, so no run has sent it: it did not
//                            happen
//
// It is not called while the outcome is open, and the key is kept:
//   a status that IsRetryable(), or no status because `keys` failed: a later run finds out.
//   a status that a proxy, an interceptor before the guard, an unguarded method or gRPC may have
//     made (UNAUTHENTICATED from an expired token, RESOURCE_EXHAUSTED for a reply over the
//     receive limit), or that the guard has not recorded: an earlier try or run may have had its
//     effect. A later run finds out, once the fault is corrected.
//   OUTCOME_UNKNOWN: a later run gets the outcome once the record is settled.
//   KEY_INVALID, REQUEST_INVALID as the answer of a try: an earlier run may have had its effect
//     before a limit, a route or a header changed. A later run finds out once the request or the
//     configuration is corrected; otherwise as follows.
//   KEY_EXPIRED, KEY_REUSED, REPLY_NOT_KEPT and every other reason: no later run finds out. Find
//     out with a read of the called service, record the result, and only then call
//     keys.Forget(work, key) with the key of keys.KeyFor(work).
//
// Returns OK if `is_done` is true, otherwise the status that `settle` received, or the one that
// prevented its call: of `keys` (UNAVAILABLE / STORE_UNAVAILABLE or INVALID_ARGUMENT /
// REQUEST_INVALID) or of `is_done`, and nothing was sent; or of the last try. Its reason
// (ReasonOf()) distinguishes the cases above: log it, for such work may need a person. A key that
// could not be forgotten is not a failure: KeyStore::Unfinished() finds it.
//
// grpc_idempotency/client/key_store.h lists the possible failures in between, and why they do
// no harm.
grpc::Status CallWithRetries(KeyStore& keys, std::string_view work, SteadyTime deadline,
                             const std::function<absl::StatusOr<bool>()>& is_done,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const std::function<bool(const grpc::Status&)>& settle,
                             const CallRetries& retries = {});

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CALL_WITH_RETRIES_H_
