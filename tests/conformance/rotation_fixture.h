#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_ROTATION_FIXTURE_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_ROTATION_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/testing/manual_clock.h"
#include "server/sealing/key_ring_source.h"
#include "server/sealing/sealed_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/test_key_ring.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {

// Processes with different key rings, in front of a store that does not seal by itself.
class RotationFixture : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    start_ = clock_.Now();
  }

  // A process that seals, with these keys; all of them seal from the beginning, in their order.
  std::unique_ptr<SealedStore> StoreWith(const std::vector<std::uint32_t>& ids,
                                         bool accept_unsealed = false) {
    std::string text;
    for (const std::uint32_t id : ids) {
      absl::StrAppend(&text, TestKey(id, start_ - absl::Hours(1000) + absl::Hours(id)));
    }
    return StoreOf(text, accept_unsealed);
  }
  std::unique_ptr<SealedStore> StoreOf(const std::string& ring, bool accept_unsealed) {
    SealedStoreOptions options;
    options.accept_unsealed = accept_unsealed;
    options.clock = &clock_;
    return std::make_unique<SealedStore>(
        store(), std::make_shared<KeyRingSource>(TestKeyRing(ring)), options);
  }
  void Advance(absl::Duration duration) {
    StoreTest::Advance(duration);
    clock_.Advance(duration);
  }

  static absl::StatusOr<Verdict> Reserve(Store& store, const ReserveOp& op) {
    return store.Reserve({&op, 1}).at(0);
  }
  static absl::StatusOr<Completion> Complete(Store& store, const std::string& name,
                                             const Uuid& token, const std::string& body = "paid") {
    const CompleteOp op = CompleteNamed(name, token, body);
    return store.Complete({&op, 1}).at(0);
  }
  static absl::StatusOr<Record> Get(Store& store, const std::string& name) {
    const GetOp op = GetNamed(name);
    return store.Get({&op, 1}).at(0);
  }

  ManualClock clock_;
  absl::Time start_;
};

// The stores that do not seal by themselves.
inline std::vector<StoreUnderTest> PlainStores() {
  std::vector<StoreUnderTest> stores = StoresUnderTest();
  stores.erase(std::remove_if(stores.begin(), stores.end(),
                              [](const StoreUnderTest& store) {
                                return store.keys_fingerprints_because.has_value();
                              }),
               stores.end());
  return stores;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_ROTATION_FIXTURE_H_
