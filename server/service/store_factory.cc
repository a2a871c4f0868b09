#include "server/service/store_factory.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "server/store/postgres/connection/conninfo.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/access.h"
#include "server/store/postgres/schema/distribution.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/redis/redis_store.h"
#include "server/store/sqlite/sqlite_store.h"

namespace idempotency::internal {
namespace {

// For sweeping, for inspections and for administrators.
constexpr int kOtherConnections = 3;

absl::StatusOr<OpenedStore> OpenSqlite(const StoreAddress& address) {
  absl::StatusOr<std::unique_ptr<SqliteStore>> store = SqliteStore::Open(address.location);
  if (!store.ok()) return store.status();
  return OpenedStore{*std::move(store), nullptr};
}

// Distributing the records locks the tables, for which the checks wait that follow the choice.
absl::Status CheckChoice(const StoreAddress& address, const PostgresOptions& options) {
  if (options.statements != PostgresStatementMode::kBatched) return absl::OkStatus();
  const absl::StatusOr<PostgresStatementMode> now = ChooseStatements(options, address.statements);
  if (!now.ok()) return now.status();
  if (*now == options.statements) return absl::OkStatus();
  return absl::UnavailableError("the records were distributed during the start");
}

// Also chooses the statements.
absl::Status PrepareSchema(const StoreAddress& address, SchemaPolicy policy,
                           PostgresOptions& options) {
  if (policy == SchemaPolicy::kMigrate) {
    if (const auto applied = PostgresMigrator(options).Up(); !applied.ok()) return applied.status();
  }
  const absl::StatusOr<PostgresStatementMode> statements =
      ChooseStatements(options, address.statements);
  if (!statements.ok()) return statements.status();
  options.statements = *statements;
  if (options.statements == PostgresStatementMode::kSingleRow) {
    options.clock_margin = address.clock_margin;
    spdlog::info("postgres: one statement for each record, with a margin of {} between clocks",
                 absl::FormatDuration(options.clock_margin));
  }
  if (absl::Status status = PostgresMigrator(options).CheckSchema(); !status.ok()) return status;
  if (absl::Status status = CheckPostgresAccess(options); !status.ok()) return status;
  return CheckChoice(address, options);
}

absl::StatusOr<OpenedStore> OpenRedis(const StoreAddress& address, int connections) {
  absl::StatusOr<RedisOptions> options = ParseRedisUrl(address.location);
  if (!options.ok()) return options.status();
  options->accept_empty = address.accept_empty;
  options->connections = connections + kOtherConnections;
  absl::StatusOr<std::unique_ptr<RedisStore>> store = RedisStore::Open(*options);
  if (!store.ok()) return store.status();
  const RedisStore* const redis = store->get();
  const auto gauges = [redis] {
    const DatabaseConnectionPoolGauges pool = redis->connections();
    return StoreConnections{pool.in_use, pool.idle, pool.broken};
  };
  return OpenedStore{*std::move(store), gauges};
}

absl::StatusOr<OpenedStore> OpenPostgres(const StoreAddress& address, int connections,
                                         SchemaPolicy policy) {
  PostgresOptions options = PostgresOptionsFor(address);
  const bool apart = !options.maintenance_url.empty();
  options.connections = connections + (apart ? 1 : 1 + kPostgresMaintenanceConnections);
  options.read_only = policy == SchemaPolicy::kRead;
  const absl::Status schema = PrepareSchema(address, policy, options);
  if (!schema.ok()) return schema;
  absl::StatusOr<std::unique_ptr<PostgresStore>> store = PostgresStore::Create(options);
  if (!store.ok()) return store.status();
  const PostgresStore* const postgres = store->get();
  const auto gauges = [postgres] {
    const DatabaseConnectionPoolGauges pool = postgres->connections();
    return StoreConnections{pool.in_use, pool.idle, pool.broken};
  };
  return OpenedStore{*std::move(store), gauges};
}

}  // namespace

absl::StatusOr<OpenedStore> OpenStore(const StoreAddress& address, int connections,
                                      SchemaPolicy schema) {
  switch (address.kind) {
    case StoreAddress::Kind::kSqlite:
      return OpenSqlite(address);
    case StoreAddress::Kind::kRedis:
      return OpenRedis(address, connections);
    case StoreAddress::Kind::kPostgres:
      break;
  }
  return OpenPostgres(address, connections, schema);
}

bool MayRecover(const absl::Status& status) {
  return status.code() != absl::StatusCode::kFailedPrecondition &&
         status.code() != absl::StatusCode::kInvalidArgument;
}

PostgresOptions PostgresOptionsFor(const StoreAddress& address) {
  PostgresOptions options;
  options.url = address.location;
  options.maintenance_url = address.maintenance;
  if (std::string schema = SchemaInUrl(options.url); !schema.empty()) {
    options.schema = std::move(schema);
  }
  return options;
}

}  // namespace idempotency::internal
