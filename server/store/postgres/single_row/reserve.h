#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RESERVE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RESERVE_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/records/reserve_plan.h"
#include "server/store/postgres/single_row/records.h"

namespace idempotency::internal {

// One batch of Reserve in PostgresStatementMode::kSingleRow. A round reads the clock and the
// records, decides, and writes each decision with a statement of its own; one that finds the record
// changed leaves its operation to the next round. All grants are durable: relaxed ones too.
// Thread-compatible.
class SingleRowReserve {
 public:
  using Indices = ReserveBatch::Indices;

  // `read_first`: the first round reads too. Otherwise it only inserts.
  SingleRowReserve(SingleRowRecords records, ReserveBatch& batch, bool read_first)
      : records_(records), batch_(batch), was_forgotten_(batch.size()), read_next_(read_first) {}

  absl::Status operator()(const Indices& pending);

  // How many of the batch's records already existed at the first read.
  std::size_t known() const { return known_; }

 private:
  // A decision to be written, and the record that it is based on.
  struct Step {
    std::size_t index = 0;
    ReserveDecision decision;
    StoredRecord stored;
  };
  using Plan = ReservePlan<Step>;

  // Those that may be inserted unless their records exist; the others are left for a read.
  std::vector<Step> PlanInserts(const Indices& pending, const SingleRowTime& time) const;
  absl::Status MakePlan(const Indices& pending, const SingleRowTime& time, Plan& plan);
  // Settles what is an answer, and adds the others to the plan.
  void Add(Step step, const SingleRowTime& time, Plan& plan);
  // An answer that was decided by `judged`, as of `now`.
  absl::StatusOr<Verdict> AsOfNow(absl::StatusOr<Verdict> answer, const SingleRowTime& time) const;

  void Insert(std::vector<Step> steps, const SingleRowTime& time);
  void StartAfresh(std::vector<Step> steps, const SingleRowTime& time);
  void GrantNext(std::vector<Step> steps, const SingleRowTime& time);
  void RenewLeases(std::vector<Step> steps, const SingleRowTime& time);
  void MarkUnknown(std::vector<Step> steps);
  // Executes a statement that returns a row if it changed one; settles those that did.
  template <typename Answer>
  void Write(const PostgresStatement& statement, std::vector<Step>& steps,
             const std::vector<PostgresParameters>& executions, Answer answer);

  SingleRowRecords records_;
  ReserveBatch& batch_;
  // Of each operation, in an earlier round.
  std::vector<bool> was_forgotten_;
  bool read_next_;
  bool first_look_ = true;
  std::size_t known_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SINGLE_ROW_RESERVE_H_
