#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_REDIS_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_REDIS_HARNESS_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/testing/manual_clock.h"
#include "server/store/redis/redis_store.h"
#include "tests/conformance/store_harness.h"

namespace idempotency::internal {

// Keys of its own on a Redis server, or on a Cluster, with a clock in the process.
class RedisHarness final : public StoreHarness {
 public:
  static absl::StatusOr<std::unique_ptr<StoreHarness>> Make();
  static absl::StatusOr<std::unique_ptr<StoreHarness>> MakeOnCluster();

  Store& store() override { return *store_; }
  absl::Time Now() override { return clock_.Now(); }
  void Advance(absl::Duration duration) override { clock_.Advance(duration); }
  absl::Status Reopen() override;

 private:
  explicit RedisHarness(RedisOptions options) : options_(std::move(options)) {
    options_.clock = &clock_;
  }
  static absl::StatusOr<std::unique_ptr<StoreHarness>> MakeWith(RedisOptions options);

  ManualClock clock_;
  RedisOptions options_;
  std::unique_ptr<RedisStore> store_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_REDIS_HARNESS_H_
