#ifndef IDEMPOTENCY_SERVER_STORE_BATCH_WEIGHT_H_
#define IDEMPOTENCY_SERVER_STORE_BATCH_WEIGHT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/limits.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// The total size of the replies in the answers of one call so far.
// Thread-compatible.
class BatchWeight {
 public:
  // The remaining operations wait for the next call.
  bool IsFull() const { return bytes_ >= limits::kMaxBatchReplyBytes; }

  void Add(std::size_t bytes) { bytes_ += bytes; }
  void Add(const absl::StatusOr<Verdict>& answer);
  void Add(const absl::StatusOr<Record>& answer);
  // No other answer has a reply.
  void Add(const absl::StatusOr<Completion>&) {}
  void Add(const absl::StatusOr<Extension>&) {}
  void Add(const absl::Status&) {}

  // The answer for an operation that is left for the next call; see RecordStore.
  static absl::Status NextCall();

 private:
  std::size_t bytes_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_BATCH_WEIGHT_H_
