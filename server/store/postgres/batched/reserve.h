#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESERVE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESERVE_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/postgres/batched/rows.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/operation_batches.h"
#include "server/store/postgres/records/reserve_plan.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {

// One batch of Reserve on one connection. A round reads the records, decides,
// and writes each kind of decision with one statement; operations that a
// statement does not hit are left to the next round. Thread-compatible.
class BatchedReserve {
 public:
  using Indices = ReserveBatch::Indices;

  // `read_first`: the first round reads too. Otherwise it only inserts, which
  // saves a statement where most keys are new.
  BatchedReserve(PostgresConnection& connection, const PostgresStatements& statements,
                 ReserveBatch& batch, bool read_first);

  absl::Status operator()(const Indices& pending);

  // Sends the first statement of the first round, over the same operations, without waiting. False
  // if nothing was sent (PostgresConnection::Send).
  bool SendFirst(const Indices& pending);

  // The first round's insert as part of a statement that does more: its
  // parameters, `indices` sorted by id; the row of an answer, whose id,
  // created_at, lease_until, expires_at and now start at `column`; and its end,
  // after which a round reads first. A statement that failed has no end.
  PostgresParameters BeginInsert(const Indices& indices);
  void SettleInserted(const PostgresResult& result, int row, int column, bool relaxed = false);
  void EndInsert(const Indices& indices);

  // How many of the batch's records already existed at the first read.
  std::size_t known() const { return known_; }

  // The operations among them that may be given a record.
  Indices Insertable(const Indices& pending) const;
  // In the order of the operations, for ReadToReserve().
  std::vector<RecordId> IdsToRead(const Indices& pending) const;

 private:
  // A decision to be written, and the row it is based on.
  struct Step {
    std::size_t index = 0;
    ReserveDecision decision;
    RecordState state = RecordState::kReserved;
    absl::Time lease_until;
  };
  // The state of one operation from earlier rounds.
  struct Progress {
    bool insert_tried = false;
    bool was_forgotten = false;
    // Generated for the running statement.
    Uuid token;
  };
  using Plan = ReservePlan<Step>;

  absl::Status MakePlan(const Indices& pending, Plan& plan);
  absl::Status PlanMissing(const Indices& missing, Plan& plan);
  // Settles what is an answer, and adds the others to the plan.
  void Add(Step step, Plan& plan);

  absl::Status Insert(const Indices& indices);
  // By id.
  Indices Sorted(Indices indices) const;
  // A durable one among them makes the commit of all durable.
  bool AreRelaxed(const Indices& indices) const;
  const PostgresStatement& InsertStatement(std::size_t size, bool relaxed) const;
  // The parameters of InsertStatement().
  PostgresParameters InsertParameters(const Indices& sorted);
  absl::Status StartAfresh(const std::vector<Step>& steps);
  PostgresParameters GrantParameters(const std::vector<Step>& steps);
  absl::Status GrantNext(const std::vector<Step>& steps);
  absl::Status RenewLeases(const std::vector<Step>& steps);
  absl::Status MarkUnknown(const std::vector<Step>& steps);

  // The step whose record a statement returned in this row.
  const Step& StepOf(const PostgresResult& result, int row, const std::vector<Step>& steps) const;
  static Indices IndicesOf(const std::vector<Step>& steps);
  // SettleFailedWrite() of these.
  absl::Status FailedWrite(const Indices& indices, const absl::Status& failure);

  PostgresParameters RowVersionsOf(const std::vector<Step>& steps) const;
  // The tokens and attempts among them.
  static void AddHeld(const std::vector<Step>& steps, PostgresParameters& parameters);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
  ReserveBatch& batch_;
  std::vector<Progress> progress_;
  bool read_next_;
  bool first_look_ = true;
  // The parameters of the insert that SendFirst() sent.
  std::optional<PostgresParameters> sent_;
  std::size_t known_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_RESERVE_H_
