#include "tests/conformance/sqlite_harness.h"

#include <utility>

namespace idempotency::internal {

absl::StatusOr<std::unique_ptr<StoreHarness>> SqliteHarness::Make() {
  auto harness = std::make_unique<SqliteHarness>();
  if (absl::Status opened = harness->Reopen(); !opened.ok()) return opened;
  return harness;
}

absl::Status SqliteHarness::Reopen() {
  store_.reset();
  SqliteOptions options;
  options.clock = &clock_;
  absl::StatusOr<std::unique_ptr<SqliteStore>> store =
      SqliteStore::Open(folder_.File("records.db"), options);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return absl::OkStatus();
}

}  // namespace idempotency::internal
