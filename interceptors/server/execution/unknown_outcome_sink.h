#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_UNKNOWN_OUTCOME_SINK_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_UNKNOWN_OUTCOME_SINK_H_

#include <memory>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

struct GuardedOperation;

// Who sees to the operations that end with an outcome which nobody knows.
// Implementations are thread-safe.
class UnknownOutcomeSink {
 public:
  virtual ~UnknownOutcomeSink() = default;

  // The outcome of what `request` asked for is open, and nobody works on it
  // here any more.
  virtual void Add(std::shared_ptr<const GuardedOperation> operation,
                   const v1::ReserveRequest& reserve_request) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_UNKNOWN_OUTCOME_SINK_H_
