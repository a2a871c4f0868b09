#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_EFFECTS_TABLE_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_EFFECTS_TABLE_H_

#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "core/mutex.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/server_guard/execution.h"

namespace idempotency::internal::testing {

// The application's own table, where each effect is a row that is committed with
// its reply in the completion ledger. Thread-safe.
class EffectsTable {
 public:
  // `server` is the name in the rows that it writes.
  EffectsTable(std::string conninfo, std::string server)
      : conninfo_(std::move(conninfo)), server_(std::move(server)) {}

  // The status of RecordInTransaction; UNAVAILABLE if the database did not commit, or may have.
  // Without a `reply_digest` only the ledger's row is written: a refusal.
  absl::Status Commit(Execution& execution, const RecordKey& key, const RecordedReply& reply,
                      std::string_view reply_digest);

 private:
  std::unique_ptr<pqxx::connection> Take();
  void GiveBack(std::unique_ptr<pqxx::connection> connection);

  const std::string conninfo_;
  const std::string server_;
  Mutex mutex_;
  std::vector<std::unique_ptr<pqxx::connection>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_EFFECTS_TABLE_H_
