#include "tests/conformance/postgres_harness.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "server/store/postgres/schema/migrator.h"
#include "server/store/postgres/schema/roles.h"
#include "tests/conformance/sealed_harness.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal {
namespace {

// Every invariant of the table. Production enforces the few that matter most: each of them costs
// time in every statement (migrations/003).
constexpr char kInvariants[] = R"sql(
ALTER TABLE records
  ADD CHECK (state BETWEEN 1 AND 4),
  ADD CHECK (attempt >= 1),
  ADD CHECK (CASE WHEN state = 2
    THEN num_nulls(completed_at, reply, reply_digest) = 0
    ELSE num_nonnulls(completed_at, reply, reply_digest, status_digest) = 0 END),
  ADD CHECK (octet_length(reply_digest) = 32),
  ADD CHECK (status_digest IS NULL OR (octet_length(status_digest) = 32
    AND reply_until IS NOT NULL)),
  ADD CHECK (watched = (state = 4)),
  ADD CHECK (state = 1 OR NOT open_for_long),
  ADD CHECK (attempt > 1 OR NOT recovering),
  ADD CHECK (created_at <= expires_at AND lease_until <= expires_at),
  ADD CHECK (reply_until > created_at),
  ADD CHECK (tombstone_until > expires_at),
  ADD CHECK (fingerprints <> '' OR (state = 3
    AND num_nonnulls(request_token, parent_key, labels, release_reason, reply_until) = 0)),
  ADD CHECK (num_nulls(parent_namespace, parent_scope, parent_operation, parent_key) IN (0, 4))
)sql";

// The test's clock is no table of the product, so it needs a grant of its own.
constexpr char kLogins[] = R"sql(
GRANT SELECT ON test_clock TO {prefix}_app, {prefix}_sweeper, {prefix}_admin;
CREATE ROLE {prefix}_calls LOGIN; GRANT {prefix}_app TO {prefix}_calls;
CREATE ROLE {prefix}_sweeps LOGIN; GRANT {prefix}_sweeper, {prefix}_admin TO {prefix}_sweeps
)sql";

// The one that IDEMPOTENCY_TEST_POSTGRES names, else one of this process. No test of the suite
// crashes it, so it does not wait for the disk.
std::string ServerUrl() {
  const char* const given = std::getenv("IDEMPOTENCY_TEST_POSTGRES");
  if (given != nullptr && *given != '\0') return given;
  static const std::unique_ptr<testing::PostgresCluster> cluster =
      testing::PostgresCluster::Create({/*fsync=*/false}).value();
  return cluster->url();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresHarness>> PostgresHarness::MakeClosed() {
  auto schema =
      testing::PostgresSchema::Create(ServerUrl(), {/*migrate=*/true, /*test_clock=*/true});
  if (!schema.ok()) return schema.status();
  if (const auto added = (*schema)->Execute(kInvariants); !added.ok()) return added.status();
  return std::unique_ptr<PostgresHarness>(
      new PostgresHarness(*std::move(schema)));  // private constructor
}

absl::StatusOr<std::unique_ptr<PostgresHarness>> PostgresHarness::MakeClosedWithRoles() {
  absl::StatusOr<std::unique_ptr<PostgresHarness>> made = MakeClosed();
  if (!made.ok()) return made.status();
  if (absl::Status added = (*made)->AddRoles(); !added.ok()) return added;
  return made;
}

absl::StatusOr<std::unique_ptr<StoreHarness>> PostgresHarness::Opened(
    absl::StatusOr<std::unique_ptr<PostgresHarness>> harness) {
  if (!harness.ok()) return harness.status();
  if (absl::Status opened = (*harness)->Reopen(); !opened.ok()) return opened;
  return std::unique_ptr<StoreHarness>(*std::move(harness));
}

absl::StatusOr<std::unique_ptr<StoreHarness>> PostgresHarness::Make() {
  return Opened(MakeClosed());
}

absl::StatusOr<std::unique_ptr<StoreHarness>> PostgresHarness::MakeWithRoles() {
  return Opened(MakeClosedWithRoles());
}

absl::StatusOr<std::unique_ptr<StoreHarness>> PostgresHarness::MakeInSingleRows() {
  absl::StatusOr<std::unique_ptr<PostgresHarness>> made = MakeClosedWithRoles();
  if (made.ok()) (*made)->options_.statements = PostgresStatementMode::kSingleRow;
  return Opened(std::move(made));
}

absl::StatusOr<std::unique_ptr<StoreHarness>> PostgresHarness::MakeHeld() {
  absl::StatusOr<std::unique_ptr<PostgresHarness>> made = MakeClosed();
  if (made.ok()) (*made)->holds_ = true;
  return Opened(std::move(made));
}

absl::Status PostgresHarness::AddRoles() {
  const std::string& prefix = options_.schema;
  roles_ = PostgresRoleNames(prefix);
  absl::Status made = PostgresMigrator(schema_->options()).CreateRoles(prefix);
  if (!made.ok()) return made;
  const auto added = schema_->Execute(absl::StrReplaceAll(kLogins, {{"{prefix}", prefix}}));
  if (!added.ok()) return added.status();
  for (const char* const login : {"_calls", "_sweeps"}) roles_.push_back(prefix + login);
  const std::string as = absl::StrCat(options_.url, "&user=", prefix);
  options_.url = as + "_calls";
  options_.maintenance_url = as + "_sweeps";
  return absl::OkStatus();
}

PostgresHarness::~PostgresHarness() {
  if (roles_.empty()) return;
  store_.reset();
  const std::string all = absl::StrJoin(roles_, ", ");
  schema_->Execute(absl::StrCat("DROP OWNED BY ", all, " CASCADE; DROP ROLE ", all))
      .status()
      .IgnoreError();
}

absl::Status PostgresHarness::Reopen() {
  store_.reset();
  auto store = PostgresStore::Create(options_);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  if (holds_) held_.emplace(*store_);
  return absl::OkStatus();
}

std::vector<StoreUnderTest> StoresUnderTest() {
  StoreUnderTest postgres;
  postgres.name = "Postgres";
  postgres.make = PostgresHarness::Make;
  StoreUnderTest sealed = Sealed(postgres);
  sealed.random_operations = 2'000;
  StoreUnderTest with_roles;
  with_roles.name = "PostgresWithRoles";
  with_roles.make = PostgresHarness::MakeWithRoles;
  with_roles.random_operations = 2'000;
  StoreUnderTest single_row;
  single_row.name = "PostgresInSingleRows";
  single_row.make = PostgresHarness::MakeInSingleRows;
  single_row.random_operations = 10'000;
  StoreUnderTest held;
  held.name = "PostgresHeld";
  held.make = PostgresHarness::MakeHeld;
  held.random_operations = 2'000;
  // Only reservations and completions differ.
  held.suites = {"BatchTest", "CollisionTest", "CompleteTest",
                 "RaceTest",  "RandomTest",    "ReserveTest"};
  return {postgres, sealed, with_roles, single_row, held};
}

}  // namespace idempotency::internal
