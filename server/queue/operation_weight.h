#ifndef IDEMPOTENCY_SERVER_QUEUE_OPERATION_WEIGHT_H_
#define IDEMPOTENCY_SERVER_QUEUE_OPERATION_WEIGHT_H_

#include <cstddef>

#include "absl/status/statusor.h"

#include "server/store/record_operations.h"

namespace idempotency::internal {

// The bytes that an operation holds of the MemoryBudget until it is answered.
std::size_t WeightOf(const ReserveOp& op);
std::size_t WeightOf(const CompleteOp& op);
std::size_t WeightOf(const ReleaseOp& op);
std::size_t WeightOf(const ExtendOp& op);
std::size_t WeightOf(const GetOp& op);

// The bytes of the reply in an answer: nothing else in one is large.
std::size_t ReplyBytesIn(const absl::StatusOr<Verdict>& answer);
std::size_t ReplyBytesIn(const absl::StatusOr<Record>& answer);
template <typename Answer>
std::size_t ReplyBytesIn(const Answer&) {
  return 0;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_OPERATION_WEIGHT_H_
