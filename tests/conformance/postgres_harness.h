#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_POSTGRES_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_POSTGRES_HARNESS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/store/postgres/postgres_store.h"
#include "tests/conformance/held_store.h"
#include "tests/conformance/store_harness.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {

// A schema of its own on the test server, with a clock in a table.
class PostgresHarness final : public StoreHarness {
 public:
  static absl::StatusOr<std::unique_ptr<StoreHarness>> Make();
  // The store has two logins, each with the roles that it needs and no other right.
  static absl::StatusOr<std::unique_ptr<StoreHarness>> MakeWithRoles();
  // The same, with statements for each record.
  static absl::StatusOr<std::unique_ptr<StoreHarness>> MakeInSingleRows();
  // Calls begin through held connections.
  static absl::StatusOr<std::unique_ptr<StoreHarness>> MakeHeld();
  ~PostgresHarness() override;

  Store& store() override {
    if (held_) return *held_;
    return *store_;
  }
  absl::Time Now() override { return schema_->Now(); }
  void Advance(absl::Duration duration) override { schema_->Advance(duration); }
  absl::Status Reopen() override;

 private:
  explicit PostgresHarness(std::unique_ptr<testing::PostgresSchema> schema)
      : schema_(std::move(schema)), options_(schema_->options()) {
    // A row that was found locked is waited for again, so that repeating a call takes time.
    options_.locked_pause = absl::Milliseconds(1);
  }

  // With a schema, before the store is opened.
  static absl::StatusOr<std::unique_ptr<PostgresHarness>> MakeClosed();
  static absl::StatusOr<std::unique_ptr<StoreHarness>> Opened(
      absl::StatusOr<std::unique_ptr<PostgresHarness>> harness);
  static absl::StatusOr<std::unique_ptr<PostgresHarness>> MakeClosedWithRoles();
  absl::Status AddRoles();

  std::unique_ptr<testing::PostgresSchema> schema_;
  PostgresOptions options_;
  // To be dropped.
  std::vector<std::string> roles_;
  std::unique_ptr<PostgresStore> store_;
  bool holds_ = false;
  std::optional<HeldStore> held_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_POSTGRES_HARNESS_H_
