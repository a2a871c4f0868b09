#ifndef GRPC_IDEMPOTENCY_CLIENT_CALL_WITH_RETRIES_H_
#define GRPC_IDEMPOTENCY_CLIENT_CALL_WITH_RETRIES_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <set>
#include <string_view>

#include "absl/time/time.h"

#include "grpc_idempotency/client/key_store.h"
#include "grpc_idempotency/client/retry_budget.h"
#include "grpc_idempotency/client/retry_canceller.h"
#include "grpc_idempotency/deadline.h"

namespace idempotency {

// How CallWithRetries repeats a call.
struct CallRetries {
  // How long one try may take. 10 s: a guarded method that waits for a running
  // attempt answers well within it.
  absl::Duration try_timeout = absl::Seconds(10);
  // Between these a pause is drawn (DecorrelatedBackoff). 100 ms: a rolling
  // restart's gap is of that order. 10 s: how late a recovered server is
  // noticed. What a server asks for (google.rpc.RetryInfo, or the trailer
  // grpc-retry-pushback-ms) comes first, if it is longer.
  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(10);
  // Retried beside what IsRetryable() says of itself, if the status has no
  // reason of ours: ABORTED and RESOURCE_EXHAUSTED, where the service says that
  // they pass.
  std::set<grpc::StatusCode> also_retried;
  // Bounds the retries of all calls that share it. Name the called service:
  //   retries.budget = &RetryBudget::ForService(payments::v1::Payments::service_full_name());
  // Null: the deadline is the only bound.
  RetryBudget* budget = &RetryBudget::ForService("");
  // Ends the call early. Null: only the deadline does.
  RetryCanceller* canceller = nullptr;
};

// Repeats one unary call to a guarded method, with one key, until it is
// answered with something that IsRetryable() calls an answer: for windows
// longer than gRPC's five attempts, such as a deployment of the server. `key`
// is what makes the tries one operation: keep it with the work, so that another
// process can go on with it. `call` must send the same request on every try.
//
//   payments::v1::ChargeReply reply;
//   grpc::Status status = CallWithRetries(
//       order.idempotency_key(), DeadlineIn(absl::Minutes(10)),
//       [&](grpc::ClientContext& context) { return stub->Charge(&context, request, &reply); });
//
// Each try gets a context of its own, with the key pinned and a deadline set;
// `call` may add to it and makes the call once. A try that it cancels by itself
// is one that failed: use a RetryCanceller to end the whole.
//
// Returns the last try's status, also when the tries end without an answer: the
// next pause would pass `deadline`, the budget is empty, the server's pushback
// forbids it, or the canceller was used. Such a status is indefinite: the
// operation may have happened, and the same key tells, later. Without a try:
//   INVALID_ARGUMENT / KEY_INVALID  no guard would take the key
//   DEADLINE_EXCEEDED               `deadline` has passed already
//   CANCELLED                       stopped already
//
// On a channel whose own retries are on, each try is up to five: the pauses and
// the budget count tries. Leave them off (GRPC_ARG_ENABLE_RETRIES 0) where every
// call goes through here.
//
// Only for methods that a guard protects, or that are idempotent by nature: a
// lost answer is asked for again. Blocks. Thread-safe as far as `call` is.
grpc::Status CallWithRetries(std::string_view key, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries = {});

// The same for work that must survive a restart of this process: the key of
// `work` comes from `keys`, where it is durable before it is first sent, and is
// forgotten only when the work is done.
//
// `settle` is given the answer, and writes the outcome down where the
// application looks before it begins such work again. It returns true once that
// is durable: the key is then forgotten. False keeps it, and the next run of
// this work gets the same answer. It is not called while the outcome is open
// (a status that IsRetryable(), or none at all because the store failed): the
// key stays.
//
// Returns the status that settle was given, or the one that kept it from being
// called: of `keys` (UNAVAILABLE / STORE_UNAVAILABLE or INVALID_ARGUMENT /
// REQUEST_INVALID, nothing was sent) or of the last try. A key that could not
// be forgotten is no failure: KeyStore::Unfinished() finds it.
//
// What can go wrong in between, and why it does no harm: grpc_idempotency/client/key_store.h.
grpc::Status CallWithRetries(KeyStore& keys, std::string_view work, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const std::function<bool(const grpc::Status&)>& settle,
                             const CallRetries& retries = {});

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CALL_WITH_RETRIES_H_
