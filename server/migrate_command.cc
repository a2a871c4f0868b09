#include "server/migrate_command.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "migrations/migrations.h"
#include "server/store/postgres_migrator.h"
#include "server/store_factory.h"

namespace idempotency {
namespace {

std::string DescribeStates(const std::vector<MigrationState>& states) {
  std::string text;
  for (const MigrationState& state : states) {
    absl::StrAppend(&text, absl::Dec(state.version, absl::kZeroPad3), " ", state.name, ": ",
                    state.applied ? absl::StrCat("applied ", state.applied_at) : "not applied",
                    "\n");
  }
  return text;
}

// `what` is done to the versions: "applied" or "took back".
std::string DescribeSteps(const std::string& schema, absl::string_view what,
                          const std::vector<int>& versions) {
  if (versions.empty()) return absl::StrCat(schema, ": nothing to do\n");
  return absl::StrCat(schema, ": ", what, " ", absl::StrJoin(versions, ", "), "\n");
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
      absl::StrCat("--to=", target, ": this build knows versions 0 to ", all.back().version));
}

absl::StatusOr<std::string> MigrateTo(const StoreAddress& store, int target) {
  const auto wanted = MigrationsUpTo(target);
  if (!wanted.ok()) return wanted.status();
  const PostgresOptions options = PostgresOptionsFor(store);
  PostgresMigrator migrator(options);
  const absl::StatusOr<std::vector<MigrationState>> states = migrator.Status();
  if (!states.ok()) return states.status();

  const bool back = target < VersionOf(*states);
  const absl::StatusOr<std::vector<int>> steps =
      back ? migrator.Down(target) : PostgresMigrator(options, *wanted).Up();
  if (!steps.ok()) return steps.status();
  return DescribeSteps(store.Display(), back ? "took back" : "applied", *steps);
}

}  // namespace

absl::StatusOr<std::string> Migrate(const MigrateOptions& options) {
  if (options.store.kind == StoreAddress::Kind::kSqlite) {
    return absl::StrCat(
        options.store.Display(),
        ": nothing to do; `serve` brings a SQLite file up to date when it opens it\n");
  }
  if (options.status) {
    const absl::StatusOr<std::vector<MigrationState>> states =
        PostgresMigrator(PostgresOptionsFor(options.store)).Status();
    if (!states.ok()) return states.status();
    return DescribeStates(*states);
  }
  return MigrateTo(options.store, options.to.value_or(AllMigrations().back().version));
}

}  // namespace idempotency
