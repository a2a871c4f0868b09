// The stores that live inside the process.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "server/store/memory_store.h"
#include "server/store/sqlite_store.h"
#include "tests/conformance/manual_clock.h"
#include "tests/conformance/store_harness.h"

namespace idempotency {
namespace {

class MemoryHarness final : public StoreHarness {
 public:
  Store& store() override { return store_; }
  absl::Time Now() override { return clock_.Now(); }
  void Advance(absl::Duration duration) override { clock_.Advance(duration); }
  absl::Status Reopen() override { return absl::UnimplementedError("nothing outlives it"); }

 private:
  ManualClock clock_;
  MemoryStore store_{clock_};
};

class SqliteHarness final : public StoreHarness {
 public:
  static absl::StatusOr<std::unique_ptr<StoreHarness>> Make() {
    std::string folder = ::testing::TempDir() + "/conformance-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return absl::ErrnoToStatus(errno, "mkdtemp");
    auto harness = std::make_unique<SqliteHarness>(folder);
    const absl::Status opened = harness->Reopen();
    if (!opened.ok()) return opened;
    return harness;
  }

  explicit SqliteHarness(std::string folder) : folder_(std::move(folder)) {}
  ~SqliteHarness() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Store& store() override { return *store_; }
  absl::Time Now() override { return clock_.Now(); }
  void Advance(absl::Duration duration) override { clock_.Advance(duration); }
  absl::Status Reopen() override {
    store_.reset();
    SqliteOptions options;
    options.clock = &clock_;
    absl::StatusOr<std::unique_ptr<SqliteStore>> store =
        SqliteStore::Open(folder_ + "/records.db", options);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }

 private:
  const std::string folder_;
  ManualClock clock_;
  std::unique_ptr<SqliteStore> store_;
};

absl::StatusOr<std::unique_ptr<StoreHarness>> MakeMemory() {
  return std::make_unique<MemoryHarness>();
}

}  // namespace

std::vector<StoreUnderTest> StoresUnderTest() {
  return {
      {"Memory", MakeMemory, "it is a model, kept in memory"},
      {"Sqlite", SqliteHarness::Make},
  };
}

}  // namespace idempotency
