#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_SWEEP_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_SWEEP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/decision.h"
#include "server/store/postgres/records/sweep_walk.h"
#include "server/store/postgres/single_row/records.h"
#include "server/store/sweep_operations.h"

namespace idempotency::internal {

// One step of a sweep (records/sweep_walk.h) in PostgresStatementMode::kSingleRow: one statement
// reads the next records of all nodes and locks none; those that need it are changed by
// statements of their own. Several replicas may sweep at once: each change matches the record as it
// was read. Of one step each; thread-compatible.
class SingleRowSweep {
 public:
  explicit SingleRowSweep(SingleRowRecords records) : records_(records) {}

  absl::StatusOr<SweepProgress> Step(const SweepOp& op);

 private:
  // A visited row, as far as a sweep needs it.
  struct Visited {
    StoredRecord stored;
    SweepView view;
    bool open_for_long = false;
    bool watched = false;
  };

  absl::Status Walk(const SweepOp& op, SweepProgress& progress);
  absl::StatusOr<SweepVisit> Visit(const PostgresStatement& statement,
                                   const PostgresParameters& parameters, SweepProgress& progress);
  static std::optional<Visited> ReadVisited(const PostgresResult& rows, int row);
  // Sorts the rows by what they need, and adds them to the progress, as far as the replies of those
  // that are removed have sweep_limits::kRemovedAtOnceBytes together. Returns how many.
  int Note(const PostgresResult& rows, SweepProgress& progress);
  void Note(Visited visited, SweepProgress& progress);
  bool IsFull() const;
  absl::Status ChangeAll(SweepProgress& progress);
  // Each returns the first failure.
  absl::Status RemoveAll(SweepProgress& progress);
  absl::Status EntombAll(SweepProgress& progress);
  absl::Status DropReplies(SweepProgress& progress);
  // `changed` is increased for each row that the statement returns; the checkpoints of those are
  // removed if `with_checkpoints`.
  absl::Status Write(const PostgresStatement& statement, const std::vector<Visited>& visited,
                     const std::vector<PostgresParameters>& executions, bool with_checkpoints,
                     std::int64_t& changed);

  SingleRowRecords records_;
  SingleRowTime time_;
  std::int64_t removed_bytes_ = 0;
  std::vector<Visited> remove_;
  std::vector<Visited> entomb_;
  std::vector<Visited> mark_unknown_;
  std::vector<Visited> watch_;
  std::vector<RecordId> replies_over_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_SWEEP_H_
