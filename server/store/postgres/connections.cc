#include "server/store/postgres/connections.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "server/store/postgres/schema/distribution.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kUndefinedTable = "42P01";

// Until an operator has acted.
absl::Status NotServed(const std::string& why) {
  return MakeError(Reason::kStoreUnavailable, why, RetryAfter(retry_delays::kSchemaGone));
}

absl::Status SchemaGone(const std::string& schema, absl::string_view what) {
  return NotServed(absl::StrCat("the store's schema ", schema, " ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresConnections::Open() {
  auto opened = PostgresConnection::Open(options_, watchdog_);
  if (absl::IsFailedPrecondition(opened.status())) {
    // Found by the check of the schema at the start, unless it came later.
    spdlog::error("postgres: {}", std::string(opened.status().message()));
    return absl::UnavailableError("postgres is behind a pooler");
  }
  if (!opened.ok()) return opened.status();
  if (absl::Status status = Begin(**opened); !status.ok()) return status;
  if (absl::Status status = CheckSchema(**opened); !status.ok()) return status;
  if (absl::Status status = CheckNodes(**opened); !status.ok()) return status;
  if ((*opened)->lost()) return absl::UnavailableError("the session was lost");
  return opened;
}

absl::Status PostgresConnections::Begin(PostgresConnection& connection) {
  // A statement that runs for longer than its timeout plus half of this side's grace:
  // no client waits for it any more.
  const absl::Duration abandoned_after = options_.statement_timeout + options_.reply_grace / 2;
  PostgresParameters parameters;
  parameters.Add(static_cast<std::int32_t>(absl::ToInt64Milliseconds(abandoned_after)));
  const auto begun = connection.Execute(statements_.begin_session, parameters);
  if (!begun.ok()) return begun.status();
  // Columns: has the lock, abandoned connections.
  if (!begun->Bool(0, 0)) {
    spdlog::warn("postgres: the schema {} is being reverted or distributed; no session is opened",
                 options_.schema);
    return absl::UnavailableError("the schema is being reverted or distributed");
  }
  const std::int64_t abandoned = begun->Integer(0, 1);
  if (abandoned < options_.max_abandoned_sessions) return absl::OkStatus();
  spdlog::warn(
      "postgres: {} abandoned sessions still wait, most likely for a synchronous standby; no "
      "further session is opened until fewer wait",
      abandoned);
  return absl::UnavailableError("too many abandoned sessions wait for the standby");
}

absl::Status PostgresConnections::CheckSchema(PostgresConnection& connection) {
  const auto looked = connection.Execute(statements_.read_schema, {});
  const bool is_gone =
      !looked.ok() && absl::StrContains(looked.status().message(), kUndefinedTable);
  if (!looked.ok() && !is_gone) return looked.status();  // proves nothing about the schema
  const absl::StatusOr<bool> misfit = NeedsOtherStatements(connection);
  if (!misfit.ok()) return misfit.status();
  MutexLock lock(mutex_);
  absl::Status found = Judge(looked);
  if (found.ok() && *misfit) {
    found =
        SchemaGone(options_.schema,
                   "was distributed by Citus after this process began, whose statements are for "
                   "one server: restart idempotencyd");
  }
  if (!found.ok() && schema_.ok()) spdlog::error("postgres: {}", std::string(found.message()));
  if (found.ok() && !schema_.ok()) spdlog::info("postgres: the schema is valid again");
  schema_ = found;
  return found;
}

absl::StatusOr<bool> PostgresConnections::NeedsOtherStatements(
    PostgresConnection& connection) const {
  if (options_.statements != PostgresStatementMode::kBatched) return false;
  const absl::StatusOr<bool> distributed = IsDistributed(connection, options_.schema);
  // The log has the reason.
  if (!distributed.ok()) {
    return absl::UnavailableError("cannot read whether the records are distributed");
  }
  return distributed;
}

absl::Status PostgresConnections::Judge(const absl::StatusOr<PostgresResult>& looked) {
  // Columns: when the first migration was applied, whether all that this program needs
  // are, whether a newer one is that it may not serve.
  if (!looked.ok() || looked->IsNull(0, 0)) {
    return SchemaGone(options_.schema,
                      "was removed while it was served: restore it, or stop every idempotencyd "
                      "before it is recreated");
  }
  const std::string identity = looked->Text(0, 0);
  if (identity_.empty()) identity_ = identity;
  if (identity != identity_) {
    return SchemaGone(options_.schema,
                      "was recreated while it was served, and the records are lost: restore them, "
                      "or restart idempotencyd to continue with the records that are in it");
  }
  if (!looked->Bool(0, 1)) {
    return SchemaGone(
        options_.schema,
        "was reverted to an older version while it was served: run `idempotencyd migrate`");
  }
  if (looked->Bool(0, 2)) {
    return SchemaGone(
        options_.schema,
        "was migrated to a version that this build cannot serve: run the newer idempotencyd");
  }
  return absl::OkStatus();
}

absl::Status PostgresConnections::schema() const {
  MutexLock lock(mutex_);
  return schema_;
}

bool PostgresConnections::TakeNodesCheck() {
  if (options_.statements != PostgresStatementMode::kSingleRow) return false;
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  if (nodes_checked_at_ && absl::FromChrono(now - *nodes_checked_at_) < options_.nodes_proof) {
    return false;
  }
  nodes_checked_at_ = now;
  return true;
}

absl::Status PostgresConnections::CheckNodes(PostgresConnection& connection) {
  const bool due = TakeNodesCheck();
  const absl::Status found =
      due ? CheckNodesCommit(connection, options_.nodes_timeout) : absl::OkStatus();
  MutexLock lock(mutex_);
  if (!due) return nodes_;
  if (absl::IsUnavailable(found)) {
    LogSilentNodes(found);
    return nodes_;
  }
  if (!found.ok() && nodes_.ok()) spdlog::error("postgres: {}", std::string(found.message()));
  if (found.ok() && !nodes_.ok()) spdlog::info("postgres: commits are durable on all nodes again");
  nodes_ = found.ok() ? found : NotServed(std::string(found.message()));
  return nodes_;
}

absl::Status PostgresConnections::served() const {
  MutexLock lock(mutex_);
  return schema_.ok() ? nodes_ : schema_;
}

}  // namespace idempotency::internal
