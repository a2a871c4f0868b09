#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RESEAL_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RESEAL_H_

#include <vector>

#include "absl/status/statusor.h"

#include "server/store/decision.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/postgres/single_row/walk.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

// AdminStore::Reseal in PostgresStatementMode::kSingleRow (SingleRowWalk). The entry of the audit
// log follows what it names: a process that ends between both leaves none. Thread-compatible.
class SingleRowReseal {
 public:
  explicit SingleRowReseal(SingleRowRecords records) : records_(records), walk_(records) {}

  absl::StatusOr<ResealStep> Step(const ResealOp& op);

 private:
  absl::StatusOr<std::vector<StoredRecord>> ReadContents(const ResealOp& op, ResealStep& step);
  absl::StatusOr<bool> Replace(const ContentReplacement& replacement);
  // The entry of the audit log, which names `last`.
  absl::Status Note(const ResealOp& op, const Record& last, const ResealStep& step);

  SingleRowRecords records_;
  SingleRowWalk walk_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RESEAL_H_
