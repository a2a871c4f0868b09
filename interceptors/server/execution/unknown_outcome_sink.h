#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_UNKNOWN_OUTCOME_SINK_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_UNKNOWN_OUTCOME_SINK_H_

#include <memory>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

struct GuardedOperation;

// Receives the operations that ended with an unknown outcome. Implementations are thread-safe.
class UnknownOutcomeSink {
 public:
  virtual ~UnknownOutcomeSink() = default;

  // The outcome of the operation of `reserve_request` is open, and no code of this guard works
  // on it any more.
  virtual void Add(std::shared_ptr<const GuardedOperation> operation,
                   const v1::ReserveRequest& reserve_request) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_UNKNOWN_OUTCOME_SINK_H_
