#ifndef IDEMPOTENCY_EXAMPLES_PAYMENTS_OUTCOME_H_
#define IDEMPOTENCY_EXAMPLES_PAYMENTS_OUTCOME_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <string>

namespace payments {

// The result of a guarded call, as far as its caller can see it. A value type.
struct Outcome {
  grpc::Status status;
  // The catalogue's reason ("KEY_REUSED") for a rejection by the guard, empty
  // for an answer of the handler's own.
  std::string reason;
  // From the trailing metadata; empty when absent.
  bool replayed = false;
  std::string record_id;
  std::string expires;
};

// Reads a call that has finished.
Outcome OutcomeOf(const grpc::Status& status, const grpc::ClientContext& context);

// One line for people and scripts; `fields` is the content of the reply:
//   OK charge_id=ch_1 balance_cents=9500 replayed=true record=0193... expires=...
//   FAILED_PRECONDITION KEY_REUSED replayed=false record=0193... message="..."
std::string ToLine(const Outcome& outcome, const std::string& fields);

// "FAILED_PRECONDITION"; "CODE_99" for a number that gRPC has no name for.
std::string CodeName(int code);

}  // namespace payments

#endif  // IDEMPOTENCY_EXAMPLES_PAYMENTS_OUTCOME_H_
