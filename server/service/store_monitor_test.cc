#include "server/service/store_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "grpc_idempotency/errors.h"
#include "server/service/deferred_store.h"
#include "server/service/health.h"
#include "server/store/memory/memory_store.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kService[] = "idempotency.v1.IdempotencyService";

absl::Status Away() { return MakeError(Reason::kStoreUnavailable, "away"); }

// The states that gRPC's health service received, for tests to wait for.
class FakeHealthService final : public grpc::HealthCheckServiceInterface {
 public:
  void SetServingStatus(const std::string& name, bool serving) override {
    MutexLock lock(mutex_);
    serving_[name] = serving;
    changed_.NotifyAll();
  }
  void SetServingStatus(bool serving) override {
    MutexLock lock(mutex_);
    for (auto& [name, value] : serving_) value = serving;
    changed_.NotifyAll();
  }
  void Shutdown() override { SetServingStatus(false); }

  // True once both names are `serving`.
  bool WaitFor(bool serving) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (serving_ != std::map<std::string, bool>{{"", serving}, {kService, serving}}) {
      if (!changed_.WaitUntil(lock, deadline)) return false;
    }
    return true;
  }
  std::map<std::string, bool> serving() {
    MutexLock lock(mutex_);
    return serving_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
};

// Opens a MemoryStore when a test lets it.
class Opener {
 public:
  DeferredStore::Open AsFunction() {
    return [this]() -> absl::StatusOr<std::unique_ptr<Store>> {
      ++calls;
      if (!reachable) return Away();
      return std::make_unique<MemoryStore>(Clock::System());
    };
  }

  std::atomic<bool> reachable = false;
  std::atomic<int> calls = 0;
};

TEST(HealthTest, IsNotServingUntilTheStoreAnswers) {
  FakeHealthService service;
  Health health({{&service, kService}});
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", false), Pair(kService, false)));
  health.ReportStore(Away());
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", false), Pair(kService, false)));
  health.ReportStore(absl::OkStatus());
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", true), Pair(kService, true)));
  health.ReportStore(Away());
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", false), Pair(kService, false)));
}

TEST(HealthTest, EveryPortReportsTheSame) {
  FakeHealthService service;
  FakeHealthService further;
  Health health({{&service, kService}, {&further, "further.v1.Further"}});
  EXPECT_THAT(further.serving(), ElementsAre(Pair("", false), Pair("further.v1.Further", false)));
  health.ReportStore(absl::OkStatus());
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", true), Pair(kService, true)));
  EXPECT_THAT(further.serving(), ElementsAre(Pair("", true), Pair("further.v1.Further", true)));
  health.Drain();
  EXPECT_THAT(further.serving(), ElementsAre(Pair("", false), Pair("further.v1.Further", false)));
}

TEST(HealthTest, ADrainingServerIsNeverServingAgain) {
  FakeHealthService service;
  Health health({{&service, kService}});
  health.ReportStore(absl::OkStatus());
  health.Drain();
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", false), Pair(kService, false)));
  health.ReportStore(Away());
  health.ReportStore(absl::OkStatus());
  EXPECT_THAT(service.serving(), ElementsAre(Pair("", false), Pair(kService, false)));
}

TEST(DeferredStoreTest, AnswersStoreUnavailableUntilItIsOpen) {
  Opener opener;
  DeferredStore store(opener.AsFunction());
  const ReserveOp reserve[2];
  const auto reserved = store.Reserve(reserve);
  ASSERT_EQ(reserved.size(), 2u);
  EXPECT_EQ(ReasonOf(reserved[1].status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(reserved[1].status()).retry_delay.has_value());
  const CompleteOp complete[1];
  EXPECT_EQ(ReasonOf(store.Complete(complete)[0].status()), Reason::kStoreUnavailable);
  const ReleaseOp release[1];
  EXPECT_EQ(ReasonOf(store.Release(release)[0]), Reason::kStoreUnavailable);
  const ExtendOp extend[1];
  EXPECT_EQ(ReasonOf(store.Extend(extend)[0].status()), Reason::kStoreUnavailable);
  const GetOp get[1];
  EXPECT_EQ(ReasonOf(store.Get(get)[0].status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(store.Sweep({}).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(opener.calls, 0) << "operations must not wait for an attempt to open";
}

TEST(DeferredStoreTest, InspectOpensItOnce) {
  Opener opener;
  DeferredStore store(opener.AsFunction());
  EXPECT_FALSE(store.Inspect().ok());
  opener.reachable = true;
  EXPECT_TRUE(store.Inspect().ok());
  EXPECT_TRUE(store.Inspect().ok());
  EXPECT_EQ(opener.calls, 2);
  const GetOp get[1];
  EXPECT_EQ(ReasonOf(store.Get(get)[0].status()), Reason::kRecordNotFound);
}

TEST(StoreMonitorTest, BringsTheStoreUpAndHealthWithIt) {
  FakeHealthService service;
  Health health({{&service, kService}});
  Opener opener;
  DeferredStore store(opener.AsFunction());
  std::atomic<int> failures = 0;
  // It inspects quickly only until the store answers.
  StoreMonitor monitor(store, {absl::Hours(1), absl::Milliseconds(1)}, [&](const auto& gauges) {
    health.ReportStore(gauges.status());
    // The store is unavailable for a few inspections.
    if (!gauges.ok() && ++failures == 3) opener.reachable = true;
  });
  monitor.Start();
  EXPECT_TRUE(service.WaitFor(true));
  EXPECT_GE(failures, 3);
  monitor.Stop();
}

TEST(StoreMonitorTest, StopsWhileItWaits) {
  MemoryStore store(Clock::System());
  std::atomic<int> inspections = 0;
  StoreMonitor monitor(store, {absl::Hours(1), absl::ZeroDuration()},
                       [&](const auto&) { ++inspections; });
  monitor.Start();
  monitor.Stop();
  monitor.Stop();
  EXPECT_EQ(inspections, 1);
}

}  // namespace
}  // namespace idempotency::internal
