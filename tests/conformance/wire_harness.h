#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_HARNESS_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "tests/conformance/store_behind.h"
#include "tests/conformance/store_harness.h"
#include "tests/conformance/wire_service.h"
#include "tests/conformance/wire_store.h"

namespace idempotency::internal {

// Another harness's store behind a service, over a connection of `kind`. Time is that store's. At
// the end the service must have counted the values that the store marked for counting; otherwise
// the test fails.
class WireHarness final : public StoreHarness {
 public:
  WireHarness(std::unique_ptr<StoreHarness> behind, WireService::Kind kind);
  ~WireHarness() override;

  Store& store() override { return wire_->store; }
  absl::Time Now() override { return behind_->Now(); }
  void Advance(absl::Duration duration) override { behind_->Advance(duration); }
  // Ends the service and the connection as well, and makes new ones.
  absl::Status Reopen() override;

 private:
  struct Wire {
    Wire(Store& behind, WireService::Kind kind)
        : marked(behind), service(marked, kind), store(service.connection(), marked) {}

    StoreBehind marked;
    WireService service;
    WireStore store;
  };

  // No call may be under way.
  void Disconnect();

  const std::unique_ptr<StoreHarness> behind_;
  const WireService::Kind kind_;
  std::optional<Wire> wire_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_HARNESS_H_
