#include "tests/conformance/redis_harness.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/conformance/sealed_harness.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

testing::RedisClusterProcesses& SharedCluster() {
  static const std::unique_ptr<testing::RedisClusterProcesses> shared = [] {
    auto created = testing::RedisClusterProcesses::Create();
    if (!created.ok()) {
      std::fprintf(stderr, "no Redis Cluster: %s\n", created.status().ToString().c_str());
      std::abort();
    }
    return *std::move(created);
  }();
  return *shared;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreHarness>> RedisHarness::Make() {
  return MakeWith(testing::RedisProcess::Shared().options());
}

absl::StatusOr<std::unique_ptr<StoreHarness>> RedisHarness::MakeOnCluster() {
  return MakeWith(SharedCluster().options());
}

absl::StatusOr<std::unique_ptr<StoreHarness>> RedisHarness::MakeWith(RedisOptions options) {
  std::unique_ptr<RedisHarness> harness(
      new RedisHarness(std::move(options)));  // private constructor
  if (absl::Status opened = harness->Reopen(); !opened.ok()) return opened;
  return harness;
}

absl::Status RedisHarness::Reopen() {
  store_.reset();
  auto store = RedisStore::Open(options_);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return absl::OkStatus();
}

std::vector<StoreUnderTest> StoresUnderTest() {
  StoreUnderTest redis;
  redis.name = "Redis";
  redis.make = RedisHarness::Make;
  redis.gauges_lag_because = "counting them at once would need an index that every call updates";
  StoreUnderTest cluster = redis;
  cluster.name = "RedisCluster";
  cluster.make = RedisHarness::MakeOnCluster;
  return {redis, cluster, Sealed(redis)};
}

}  // namespace idempotency::internal
