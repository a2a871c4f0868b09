#include "tests/conformance/postgres_harness.h"

#include <utility>
#include <vector>

#include "tests/support/postgres_cluster.h"

namespace idempotency {

absl::StatusOr<std::unique_ptr<StoreHarness>> PostgresHarness::Make() {
  auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl(),
                                                {/*migrate=*/true, /*test_clock=*/true});
  if (!schema.ok()) return schema.status();
  std::unique_ptr<PostgresHarness> harness(
      new PostgresHarness(*std::move(schema)));  // private constructor
  if (absl::Status status = harness->Reopen(); !status.ok()) return status;
  return harness;
}

absl::Status PostgresHarness::Reopen() {
  store_.reset();
  auto store = PostgresStore::Create(schema_->options());
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return absl::OkStatus();
}

std::vector<StoreUnderTest> StoresUnderTest() {
  StoreUnderTest postgres;
  postgres.name = "Postgres";
  postgres.make = PostgresHarness::Make;
  // Every one is a row that other sessions fight for.
  postgres.racing_reservations = 200'000;
  return {postgres};
}

}  // namespace idempotency
