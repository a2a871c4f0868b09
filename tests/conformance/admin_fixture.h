#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_ADMIN_FIXTURE_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_ADMIN_FIXTURE_H_

#include <string>
#include <vector>

#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {

// The situations in which an administrator finds a record.
enum class Situation {
  kMissing,
  kLive,
  kLiveRecovery,
  kLapsed,
  kLapsedRecovery,
  kUnknown,
  kUnknownPastExpiry,
  kCompleted,
  kReleased,
  kPaused,
  kForgotten,
  kTombstone,
};
inline constexpr Situation kAllSituations[] = {
    Situation::kMissing,        Situation::kLive,
    Situation::kLiveRecovery,   Situation::kLapsed,
    Situation::kLapsedRecovery, Situation::kUnknown,
    Situation::kCompleted,      Situation::kUnknownPastExpiry,
    Situation::kReleased,       Situation::kPaused,
    Situation::kForgotten,      Situation::kTombstone,
};

// Stores for administrators: records in every situation, and what the audit log has.
class AdminTest : public StoreTest {
 protected:
  // A record and what its attempt knows.
  struct Case {
    ReserveOp op;
    Uuid token;
    // Before the administrator.
    std::string before;
    RecordState state = RecordState::kReserved;
  };

  static std::string NameOf(Situation situation);
  // A record in a situation; the store's clock moves. Each has a key of its own.
  Case Make(Situation situation);

  static AdminNote Note() { return {"alice", "ticket 42"}; }
  ResolveOp Completing(const Case& made, const std::string& body = "settled");
  ResolveOp Releasing(const Case& made);
  // A purge of one record.
  static PurgeOp Purging(const Case& made);

  // Every entry of the namespace.
  std::vector<AuditEntry> Audit(const std::string& name_space = "payments");
  // Those of `op`, by pages of three at most.
  std::vector<AuditEntry> Audit(AuditOp op);
  // Every record of the list, page by page.
  std::vector<Record> ListAll(ListOp op);
  static std::vector<std::string> KeysOf(const std::vector<Record>& records);
  // Step by step, to the end.
  PurgeStep PurgeAll(PurgeOp op);

 private:
  int made_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_ADMIN_FIXTURE_H_
