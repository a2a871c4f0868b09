#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESEAL_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESEAL_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/result.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

// AdminStore::Reseal on one connection: one statement reads, another one replaces and notes.
// Thread-compatible.
class BatchedReseal {
 public:
  // Both outlive it.
  BatchedReseal(PostgresConnection& connection, const PostgresStatements& statements)
      : connection_(connection), statements_(statements) {}

  absl::StatusOr<ResealStep> Step(const ResealOp& op);

 private:
  absl::StatusOr<std::vector<StoredContent>> Read(const ResealOp& op, ResealStep& step);
  // The next row is damaged. Reads none.
  absl::StatusOr<std::vector<StoredContent>> StepOver(const ResealOp& op, ResealStep& step);
  absl::Status Replace(const ResealOp& op, std::vector<ContentReplacement> replacements,
                       ResealStep& step);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESEAL_H_
