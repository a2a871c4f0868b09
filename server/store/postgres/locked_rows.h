#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_LOCKED_ROWS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_LOCKED_ROWS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/records/batch.h"

namespace idempotency::internal {

// Rows that were recently found locked by another connection. Callers repeat their
// operations on such a row; without this each repetition would delay a batch and all of
// its operations.
//
// Thread-safe; free of a lock while there are none.
class PostgresLockedRows {
 public:
  // `pause` is how long a row counts after it was found.
  explicit PostgresLockedRows(absl::Duration pause) : pause_(absl::ToChronoNanoseconds(pause)) {}

  void Add(const std::vector<RecordId>& ids);
  bool Contains(const RecordId& id) const;
  // Fails the operations of a batch on such rows.
  template <typename Op, typename Answer>
  void SetAside(PostgresBatch<Op, Answer>& batch) const {
    for (const std::size_t index : batch.All()) {
      if (!Contains(batch.op(index).id)) continue;
      batch.FailAll({index}, ToCallerStatus(absl::DeadlineExceededError("locked")));
    }
  }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  const std::chrono::nanoseconds pause_;
  std::atomic<std::size_t> size_{0};
  mutable Mutex mutex_;
  absl::flat_hash_map<RecordId, TimePoint> until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_LOCKED_ROWS_H_
