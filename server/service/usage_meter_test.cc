#include "server/service/usage_meter.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "server/store/memory/memory_store.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {
namespace {

class Measurements final : public Observer {
 public:
  void UsageMeasured(absl::string_view name_space, const NamespaceUsage& usage) override {
    records[std::string(name_space)] = usage.records;
  }

  std::map<std::string, std::int64_t> records;
};

class CountedStore final : public StoreDecorator<CountedStore> {
 public:
  using StoreDecorator::StoreDecorator;
  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    return (store().*method)(ops);
  }
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override {
    steps.push_back(op.name_space);
    if (on_step) on_step();
    if (fails || op.name_space == fails_in) {
      return MakeError(Reason::kStoreUnavailable, op.name_space);
    }
    const absl::StatusOr<UsageStep> step = StoreDecorator::MeasureUsage(op);
    if (step.ok()) visited += step->visited;
    return step;
  }

  bool fails = false;
  std::string fails_in;
  std::int64_t visited = 0;
  // The namespace of each step, of one thread.
  std::vector<std::string> steps;
  std::function<void()> on_step;
};

class UsageMeterTest : public ::testing::Test {
 protected:
  UsageMeterTest() {
    Fill("n");
    options_.batch = 3;
    options_.rest = 0;
  }
  void Fill(const std::string& name_space) {
    for (int i = 0; i < 10; ++i) {
      ReserveOp op;
      op.key = {name_space, "scope", "operation", "key-" + std::to_string(i)};
      op.id = RecordIdFor(op.key);
      op.fingerprints = {Fingerprint{1, {}}};
      EXPECT_TRUE(memory_.Reserve({&op, 1}).at(0).ok());
    }
  }
  void Limit(std::int64_t records) {
    NamespaceSettings settings;
    settings.max_records = records;
    tenants_.Configure({{"n", settings}, {"empty", settings}, {"plain", {}}});
  }
  absl::Status Measure() { return UsageMeter(store_, tenants_, options_).RunOnce(); }

  ManualClock clock_;
  MemoryStore memory_{clock_};
  CountedStore store_{memory_};
  Measurements observer_;
  Tenants tenants_{observer_, clock_};
  UsageMeter::Options options_;
};

TEST_F(UsageMeterTest, CountsEachNamespaceWithAQuota) {
  Limit(100);
  EXPECT_TRUE(Measure().ok());
  EXPECT_EQ(observer_.records, (std::map<std::string, std::int64_t>{{"n", 10}, {"empty", 0}}));
}

TEST_F(UsageMeterTest, EndsWhereTheQuotaIsExceeded) {
  Limit(4);
  EXPECT_TRUE(Measure().ok());
  EXPECT_EQ(observer_.records["n"], 6) << "two steps of three";
}

TEST_F(UsageMeterTest, ReadsABoundedNumberOfRows) {
  Limit(100);
  options_.max_rows = 3;
  EXPECT_TRUE(Measure().ok());
  EXPECT_EQ(store_.visited, 6) << "a step for each of the two";
}

TEST_F(UsageMeterTest, AfterAnErrorTheLastMeasurementApplies) {
  Limit(10);
  EXPECT_TRUE(Measure().ok());
  observer_.records.clear();
  store_.fails = true;
  EXPECT_EQ(ReasonOf(Measure()), Reason::kStoreUnavailable);
  EXPECT_TRUE(observer_.records.empty());
  ReserveOp op;
  op.key = {"n", "scope", "operation", "one-more"};
  absl::Duration wait;
  EXPECT_TRUE(tenants_.AdmitReservation(op, {true, true}, wait).ok());
  EXPECT_TRUE(op.only_existing);
}

TEST_F(UsageMeterTest, AnErrorOfANamespaceIsNotOfTheOthers) {
  Limit(100);
  for (const std::string name_space : {"n", "empty"}) {
    observer_.records.clear();
    store_.fails_in = name_space;
    EXPECT_EQ(ReasonOf(Measure()), Reason::kStoreUnavailable);
    EXPECT_EQ(observer_.records.size(), 1U);
    EXPECT_EQ(observer_.records.count(name_space), 0U);
  }
}

TEST_F(UsageMeterTest, TheFirstErrorIsReturned) {
  Limit(100);
  store_.fails = true;
  EXPECT_EQ(Measure().message(), tenants_.Quotas().front().name_space);
}

// Neither the rest of a namespace nor the next namespace is measured.
TEST_F(UsageMeterTest, StopEndsAPassAfterTheStep) {
  Fill("other");
  NamespaceSettings settings;
  settings.max_records = 100;
  tenants_.Configure({{"n", settings}, {"other", settings}});
  // A pause of minutes at least, which Stop() ends.
  options_.rest = 1e9;
  std::promise<void> stepped;
  store_.on_step = [&] {
    if (store_.steps.size() == 1) stepped.set_value();
  };
  UsageMeter meter(store_, tenants_, options_);
  meter.Start();
  stepped.get_future().wait();
  meter.Stop();
  EXPECT_EQ(store_.steps.size(), 1U);
  EXPECT_TRUE(observer_.records.empty()) << "a part of a namespace is no measurement";
  meter.Stop();
}

}  // namespace
}  // namespace idempotency::internal
