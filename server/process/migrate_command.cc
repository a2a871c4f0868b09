#include "server/process/migrate_command.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "migrations/migrations.h"
#include "server/service/store_factory.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/postgres/schema/roles.h"
#include "server/store/redis/identity.h"
#include "server/store/redis/markers.h"
#include "server/store/redis/options.h"
#include "server/store/redis/redis_store.h"

namespace idempotency::internal {
namespace {

std::string DescribeStates(const std::vector<MigrationState>& states) {
  std::string text;
  for (const MigrationState& state : states) {
    absl::StrAppend(&text, absl::Dec(state.version, absl::kZeroPad3), " ", state.name, ": ",
                    state.applied ? absl::StrCat("applied ", state.applied_at) : "not applied",
                    state.newer ? " by a newer idempotencyd" : "", "\n");
  }
  return text;
}

// `what` is done to the versions: "applied" or "reverted".
std::string DescribeSteps(const std::string& schema, absl::string_view what,
                          const std::vector<int>& versions) {
  if (versions.empty()) return absl::StrCat(schema, ": nothing to do\n");
  return absl::StrCat(schema, ": ", what, " ", absl::StrJoin(versions, ", "), "\n");
}

std::string RolePrefix(const MigrateOptions& options) {
  if (!options.role_prefix.empty()) return options.role_prefix;
  return PostgresOptionsFor(options.store).schema;
}

// The owner's name is the first.
std::string DescribeRoles(const std::string& schema, std::vector<std::string> names) {
  const std::string owner = names.front();
  names.erase(names.begin());
  return absl::StrCat(schema, ": ", owner, " owns it; logins become members of ",
                      absl::StrJoin(names, ", "), "\n");
}

int VersionOf(const std::vector<MigrationState>& states) {
  int version = 0;
  for (const MigrationState& state : states) {
    if (state.applied) version = std::max(version, state.version);
  }
  return version;
}

// The migrations up to `target`.
absl::StatusOr<absl::Span<const Migration>> MigrationsUpTo(int target) {
  const absl::Span<const Migration> all = AllMigrations();
  if (target == 0) return all.first(0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].version == target) return all.first(i + 1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--to=", target, ": this build supports versions 0 to ", all.back().version));
}

absl::Status MustConfirm(int from, int to) {
  return absl::FailedPreconditionError(
      absl::StrCat("the downgrade from version ", from, " to ", to, " loses ",
                   to == 0 ? "every record, and every operation would run again"
                           : "the data that only the newer tables and columns hold",
                   ": stop every idempotencyd of this schema, then repeat the command with --yes"));
}

absl::StatusOr<std::string> Migrate(const StoreAddress& store, std::optional<int> to, bool yes) {
  const int target = to.value_or(AllMigrations().back().version);
  const auto wanted = MigrationsUpTo(target);
  if (!wanted.ok()) return wanted.status();
  const PostgresOptions options = PostgresOptionsFor(store);
  PostgresMigrator migrator(options);
  const absl::StatusOr<std::vector<MigrationState>> states = migrator.Status();
  if (!states.ok()) return states.status();

  const int version = VersionOf(*states);
  if (target < version && !to.has_value()) {
    return absl::StrCat(store.Display(), ": at version ", version, ", newer than this build's ",
                        target, ", which may serve it; left unchanged\n");
  }
  const bool back = target < version;
  if (back && !yes) return MustConfirm(version, target);
  const absl::StatusOr<std::vector<int>> steps =
      back ? migrator.Down(target) : PostgresMigrator(options, *wanted).Up();
  if (!steps.ok()) return steps.status();
  return DescribeSteps(store.Display(), back ? "reverted" : "applied", *steps);
}

// Writes the markers without which `serve` does not use a Redis.
absl::StatusOr<std::string> PrepareRedis(const MigrateOptions& options) {
  absl::StatusOr<RedisOptions> redis = ParseRedisUrl(options.store.location);
  if (!redis.ok()) return redis.status();
  const absl::StatusOr<RedisMarkers::Faults> faults = RedisStore::FindMarkerFaults(*redis);
  if (!faults.ok()) return faults.status();
  const std::string store = options.store.Display();
  if (options.status) {
    const std::string differing =
        faults->differing == 0
            ? ""
            : absl::StrCat(", ", faults->differing, " of them with another value than the others");
    return absl::StrCat(store, ": ", RedisIdentity::kMarkers - faults->missing, " of ",
                        RedisIdentity::kMarkers, " markers are there", differing,
                        faults->preparing ? ", the preparation has not ended" : "", "\n");
  }
  if (faults->count() == 0) return absl::StrCat(store, ": nothing to do\n");
  redis->accept_empty = true;
  if (const auto prepared = RedisStore::Open(*redis); !prepared.ok()) return prepared.status();
  return absl::StrCat(store, ": wrote ", faults->count(), " markers; it can be served\n");
}

}  // namespace

absl::StatusOr<std::string> Migrate(const MigrateOptions& options) {
  if (options.store.kind == StoreAddress::Kind::kSqlite) {
    return absl::StrCat(options.store.Display(),
                        ": nothing to do; `serve` migrates a SQLite file when it opens it\n");
  }
  if (options.store.kind == StoreAddress::Kind::kRedis) return PrepareRedis(options);
  if (options.status) {
    const absl::StatusOr<std::vector<MigrationState>> states =
        PostgresMigrator(PostgresOptionsFor(options.store)).Status();
    if (!states.ok()) return states.status();
    return DescribeStates(*states);
  }
  absl::StatusOr<std::string> report = Migrate(options.store, options.to, options.yes);
  PostgresMigrator migrator(PostgresOptionsFor(options.store));
  if (report.ok() && options.distribute) {
    const absl::Status distributed = migrator.Distribute();
    if (!distributed.ok()) return distributed;
    absl::StrAppend(&*report, options.store.Display(), ": its records are distributed\n");
  }
  if (report.ok() && options.create_roles) {
    const std::string prefix = RolePrefix(options);
    const absl::Status made = migrator.CreateRoles(prefix);
    if (!made.ok()) return made;
    absl::StrAppend(&*report, DescribeRoles(options.store.Display(), PostgresRoleNames(prefix)));
  }
  if (!report.ok() || options.grant_to.empty()) return report;
  const absl::Status granted = migrator.GrantTo(options.grant_to);
  if (!granted.ok()) return granted;
  return absl::StrCat(*report, options.store.Display(), ": ", options.grant_to, " may serve it\n");
}

}  // namespace idempotency::internal
