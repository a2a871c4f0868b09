#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_OPEN_OUTCOMES_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_OPEN_OUTCOMES_H_

#include <memory>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

struct GuardedOperation;

// Who sees to the operations that end with an outcome which nobody knows.
// Implementations are thread-safe.
class OpenOutcomes {
 public:
  virtual ~OpenOutcomes() = default;

  // The outcome of what `question` asked for is open, and nobody works on it
  // here any more.
  virtual void Note(std::shared_ptr<const GuardedOperation> operation,
                    const v1::ReserveRequest& question) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_OPEN_OUTCOMES_H_
