#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_SEALED_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_SEALED_HARNESS_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/testing/manual_clock.h"
#include "server/sealing/key_ring_source.h"
#include "server/sealing/sealed_store.h"
#include "tests/conformance/store_harness.h"

namespace idempotency::internal {

// A store that seals, in front of one of another harness. Its ring has a key that seals at once,
// and others that follow as time goes on: what a test stores before it advances the clock is read
// under another key than that which seals.
class SealedHarness final : public StoreHarness {
 public:
  explicit SealedHarness(std::unique_ptr<StoreHarness> sealed);

  Store& store() override { return *store_; }
  absl::Time Now() override { return harness_->Now(); }
  void Advance(absl::Duration duration) override;
  absl::Status Reopen() override;

 private:
  void OpenStore();

  const std::unique_ptr<StoreHarness> harness_;
  ManualClock clock_;
  std::shared_ptr<KeyRingSource> rings_;
  std::optional<SealedStore> store_;
};

// The line for `plain` with a store that seals in front of it.
StoreUnderTest Sealed(const StoreUnderTest& plain);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_SEALED_HARNESS_H_
