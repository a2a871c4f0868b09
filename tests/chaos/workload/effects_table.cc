#include "tests/chaos/workload/effects_table.h"

#include <exception>
#include <utility>

#include "grpc_idempotency/ledger/postgres_ledger.h"

namespace idempotency::internal::testing {

absl::Status EffectsTable::Commit(Execution& execution, const RecordKey& key,
                                  const RecordedReply& reply, std::string_view reply_digest) {
  try {
    std::unique_ptr<pqxx::connection> connection = Take();
    {
      pqxx::work work(*connection);
      if (!reply_digest.empty()) {
        work.exec_params(
            "INSERT INTO effects (namespace, scope, operation, key, attempt, server, reply) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            key.name_space, key.scope, key.operation, key.key, execution.attempt(), server_,
            std::string(reply_digest));
      }
      if (absl::Status recorded = execution.RecordInTransaction(work, reply); !recorded.ok()) {
        return recorded;
      }
      work.commit();
    }
    GiveBack(std::move(connection));
    return absl::OkStatus();
  } catch (const std::exception&) {
    return absl::UnavailableError("the application's database did not confirm");
  }
}

std::unique_ptr<pqxx::connection> EffectsTable::Take() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<pqxx::connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return std::make_unique<pqxx::connection>(conninfo_);
}

void EffectsTable::GiveBack(std::unique_ptr<pqxx::connection> connection) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(connection));
}

}  // namespace idempotency::internal::testing
