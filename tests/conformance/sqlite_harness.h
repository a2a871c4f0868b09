#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_SQLITE_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_SQLITE_HARNESS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/testing/manual_clock.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/conformance/store_harness.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {

// A file in a folder of its own.
class SqliteHarness final : public StoreHarness {
 public:
  static absl::StatusOr<std::unique_ptr<StoreHarness>> Make();

  Store& store() override { return *store_; }
  absl::Time Now() override { return clock_.Now(); }
  void Advance(absl::Duration duration) override { clock_.Advance(duration); }
  absl::Status Reopen() override;

 private:
  testing::TempFolder folder_;
  ManualClock clock_;
  std::unique_ptr<SqliteStore> store_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_SQLITE_HARNESS_H_
