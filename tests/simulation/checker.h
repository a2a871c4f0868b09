#ifndef IDEMPOTENCY_TESTS_SIMULATION_CHECKER_H_
#define IDEMPOTENCY_TESTS_SIMULATION_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/record_operations.h"
#include "tests/simulation/journal.h"

namespace idempotency::internal::simulation {

// Checks the events of a run against the promises (README, "Promises"). It gets every
// decision of the store at the moment of its effect, every effect of a handler, and every answer of
// a caller; it contains no rule of the store beyond the promises, and ends the run with the first
// broken one.
class Checker {
 public:
  Checker(Journal& journal, absl::Duration window) : journal_(journal), window_(window) {}

  // The store decided, at the time `now` of its clock.
  void OnReserve(const ReserveOp& op, const absl::StatusOr<Verdict>& answer, absl::Time now);
  void OnComplete(const CompleteOp& op, const absl::StatusOr<Completion>& answer, absl::Time now);
  void OnRelease(const ReleaseOp& op, const absl::Status& answer, absl::Time now);
  void OnExtend(const ExtendOp& op, const absl::StatusOr<Extension>& answer, absl::Time now);
  // The store's state of a record, right after an operation on it or a sweep: nothing else may have
  // changed.
  void OnRecord(const RecordId& id, const absl::StatusOr<Record>& record, absl::Time now);
  std::vector<RecordId> Ids() const;

  // The store lost a reservation that it had granted and not made durable.
  void OnLost(const RecordId& id);

  // A handler's effect took place: with its row in the ledger, or alone.
  void OnEffect(const RecordId& id, std::uint32_t attempt, bool in_ledger);
  // This reply is in the ledger.
  void OnCommitted(const RecordId& id, const v1::Reply& reply);
  // The handler leaves the outcome of this attempt open.
  void Excuse(const RecordId& id);
  // A caller with the request `request` got this reply.
  void OnReply(const RecordId& id, const std::string& request, const v1::Reply& reply);
  // The promise of a ledger: this key is done, with exactly one effect.
  void OnDoneWithLedger(const RecordId& id);

 private:
  enum class State { kReserved, kCompleted, kReleased, kUnknown };

  // From a first grant until the record is forgotten.
  struct Life {
    State state = State::kReserved;
    std::uint32_t attempt = 0;
    Uuid token;
    std::optional<Uuid> request_token;
    // For a released one: not granted before.
    absl::Time lease_until;
    absl::Time expires_at;
    std::vector<Fingerprint> fingerprints;
    LeaseExpiry on_lease_expiry = LeaseExpiry::kTakeOver;
    std::optional<EncodedReply> reply;
  };
  struct History {
    std::vector<Life> lives;
    // Why an operation may have run more than once: a lease was overrun, or a handler left its
    // outcome open.
    bool excused = false;
    std::map<std::uint32_t, int> effects_by_attempt;
    int effects = 0;
    int ledger_effects = 0;
    // A reservation was lost, so that two attempts may have run.
    bool lost = false;
    std::optional<v1::Reply> committed;
    // For a key with a lost reservation, by request.
    std::map<std::string, v1::Reply> given;
  };

  static bool IsForgotten(const Life& life, absl::Time now);
  // The last life, unless it is forgotten.
  Life* LifeOf(const RecordId& id, absl::Time now);
  void Require(bool condition, const char* promise, const RecordId& id);
  void OnGrant(const ReserveOp& op, const Reserved& grant, absl::Time now);
  void OnFirstGrant(const ReserveOp& op, const Reserved& grant, absl::Time now);
  void OnNextGrant(const ReserveOp& op, const Reserved& grant, Life& life, absl::Time now);

  Journal& journal_;
  const absl::Duration window_;
  std::map<RecordId, History> histories_;
  std::set<std::string> tokens_;
  // By the label of a call: its request token.
  std::map<std::string, Uuid> request_tokens_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_CHECKER_H_
