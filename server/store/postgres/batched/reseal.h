#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESEAL_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESEAL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/result.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

// AdminStore::Reseal on one connection: one statement reads, another one replaces and notes; more
// of each around rows that the server cannot read or write. Thread-compatible.
class BatchedReseal {
 public:
  // Both outlive it.
  BatchedReseal(PostgresConnection& connection, const PostgresStatements& statements,
                UnreadablePlaces& unreadable)
      : connection_(connection), statements_(statements), unreadable_(unreadable) {}

  absl::StatusOr<ResealStep> Step(const ResealOp& op);

 private:
  absl::StatusOr<std::vector<StoredContent>> Read(const ResealOp& op, ResealStep& step);
  absl::StatusOr<std::vector<StoredContent>> ReadNext(const std::string& name_space,
                                                      const RecordPlace& after, int limit,
                                                      ResealStep& step);
  // `replacements` are sorted by id.
  absl::Status Replace(const ResealOp& op, const std::string& audit_key,
                       absl::Span<const ContentReplacement> replacements, ResealStep& step);
  absl::Status ReplaceByHalves(const ResealOp& op, const std::string& audit_key,
                               absl::Span<const ContentReplacement> replacements, ResealStep& step);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
  UnreadablePlaces& unreadable_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESEAL_H_
