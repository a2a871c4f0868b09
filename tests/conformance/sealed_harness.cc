#include "tests/conformance/sealed_harness.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/testing/test_key_ring.h"

namespace idempotency::internal {

SealedHarness::SealedHarness(std::unique_ptr<StoreHarness> sealed) : harness_(std::move(sealed)) {
  const absl::Time start = clock_.Now();
  rings_ = std::make_shared<KeyRingSource>(TestKeyRing(
      absl::StrCat(TestKey(1, start), TestKey(2, start + absl::Milliseconds(1)),
                   TestKey(3, start + absl::Seconds(31)), TestKey(4, start + absl::Hours(2)))));
  OpenStore();
}

void SealedHarness::Advance(absl::Duration duration) {
  harness_->Advance(duration);
  clock_.Advance(duration);
}

absl::Status SealedHarness::Reopen() {
  store_.reset();
  if (absl::Status opened = harness_->Reopen(); !opened.ok()) return opened;
  OpenStore();
  return absl::OkStatus();
}

void SealedHarness::OpenStore() {
  SealedStoreOptions options;
  options.clock = &clock_;
  store_.emplace(harness_->store(), rings_, options);
}

StoreUnderTest Sealed(const StoreUnderTest& plain) {
  StoreUnderTest sealed = plain;
  sealed.name = "Sealed" + plain.name;
  sealed.keys_fingerprints_because = "an HMAC of a digest is kept, so that nobody can guess it";
  sealed.make = [make = plain.make]() -> absl::StatusOr<std::unique_ptr<StoreHarness>> {
    absl::StatusOr<std::unique_ptr<StoreHarness>> harness = make();
    if (!harness.ok()) return harness.status();
    return std::make_unique<SealedHarness>(*std::move(harness));
  };
  return sealed;
}

}  // namespace idempotency::internal
