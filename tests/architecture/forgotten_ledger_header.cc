// Does not compile, and the message has the reason: no ledger header is included.
#include "grpc_idempotency/server_guard/execution.h"

struct Transaction {};

absl::Status Record(idempotency::Execution& execution, Transaction& transaction) {
  return execution.RecordInTransaction(transaction, grpc::Status::OK);
}
