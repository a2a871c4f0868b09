// The conformance suite over records that Citus has distributed: $IDEMPOTENCY_TEST_POSTGRES is its
// coordinator.
#include <memory>
#include <utility>
#include <vector>

#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/migrator.h"
#include "tests/conformance/store_harness.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

// A schema of its own, whose tables are distributed, with a clock on the coordinator.
class DistributedHarness final : public StoreHarness {
 public:
  static absl::StatusOr<std::unique_ptr<StoreHarness>> Make() {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl(),
                                                  {/*migrate=*/true, /*test_clock=*/true});
    if (!schema.ok()) return schema.status();
    const absl::Status done = PostgresMigrator((*schema)->options()).Distribute();
    if (!done.ok()) return done;
    std::unique_ptr<DistributedHarness> harness(
        new DistributedHarness(*std::move(schema)));  // private constructor
    if (absl::Status status = harness->Reopen(); !status.ok()) return status;
    return harness;
  }

  Store& store() override { return *store_; }
  absl::Time Now() override { return schema_->Now(); }
  void Advance(absl::Duration duration) override { schema_->Advance(duration); }
  absl::Status Reopen() override {
    store_.reset();
    PostgresOptions options = schema_->options();
    options.statements = PostgresStatementMode::kSingleRow;
    auto store = PostgresStore::Create(options);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }

 private:
  explicit DistributedHarness(std::unique_ptr<testing::PostgresSchema> schema)
      : schema_(std::move(schema)) {}

  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
};

}  // namespace

std::vector<StoreUnderTest> StoresUnderTest() {
  StoreUnderTest distributed;
  distributed.name = "PostgresDistributed";
  distributed.make = DistributedHarness::Make;
  distributed.racing_reservations = 5'000;
  distributed.random_operations = 3'000;
  return {distributed};
}

}  // namespace idempotency::internal
