#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_MEMORY_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_MEMORY_HARNESS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/testing/manual_clock.h"
#include "server/store/memory/memory_store.h"
#include "tests/conformance/store_harness.h"

namespace idempotency::internal {

// The reference model on a clock of its own.
class MemoryHarness final : public StoreHarness {
 public:
  static constexpr char kForgetsBecause[] = "it is a model, kept in memory";

  static absl::StatusOr<std::unique_ptr<StoreHarness>> Make() {
    return std::make_unique<MemoryHarness>();
  }

  Store& store() override { return store_; }
  absl::Time Now() override { return clock_.Now(); }
  void Advance(absl::Duration duration) override { clock_.Advance(duration); }
  absl::Status Reopen() override { return absl::UnimplementedError("nothing outlives it"); }

 private:
  ManualClock clock_;
  MemoryStore store_{clock_};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_MEMORY_HARNESS_H_
