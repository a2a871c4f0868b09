#include "server/service/usage_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
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
    const auto sized = rows.find(op.name_space);
    const absl::StatusOr<UsageStep> step =
        sized != rows.end() ? Read(sized->second, op) : StoreDecorator::MeasureUsage(op);
    if (step.ok()) visited += step->visited;
    return step;
  }

  bool fails = false;
  std::string fails_in;
  // The number of live records of a namespace, in place of the store's.
  std::map<std::string, int> rows;
  std::int64_t visited = 0;
  // The namespace of each step, of one thread.
  std::vector<std::string> steps;
  std::function<void()> on_step;

 private:
  static UsageStep Read(int rows, const UsageOp& op) {
    const int begin = op.after ? std::stoi(op.after->scope) : 0;
    const int end = std::min(begin + op.limit, rows);
    UsageStep step;
    step.usage.records = step.visited = end - begin;
    if (end < rows) step.next = RecordPlace{std::to_string(end), {}};
    return step;
  }
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
      op.on_lease_expiry = LeaseExpiry::kTakeOver;
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
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
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

class UsageTurnsTest : public UsageMeterTest {
 protected:
  // Each of them has ten records, which are read one by one.
  void Serve(const std::vector<std::string>& names, const NamespaceSettings& settings) {
    options_.batch = 1;
    NamespaceSettingsMap all;
    for (const std::string& name : names) {
      store_.rows[name] = 10;
      all.emplace(name, settings);
    }
    tenants_.Configure(all);
  }
  // Whether a new key of the namespace is refused.
  bool IsFull(const std::string& name_space) {
    ReserveOp op;
    op.on_lease_expiry = LeaseExpiry::kTakeOver;
    op.key = {name_space, "scope", "operation", "one-more"};
    absl::Duration wait;
    EXPECT_TRUE(tenants_.AdmitReservation(op, {true, true}, wait).ok());
    return op.only_existing;
  }
  void Grant(const std::string& name_space, absl::Duration retention) {
    ReserveOp op;
    op.on_lease_expiry = LeaseExpiry::kTakeOver;
    op.key = {name_space, "scope", "operation", "granted"};
    op.retention = retention;
    absl::Duration wait;
    auto place = tenants_.AdmitReservation(op, {true, true}, wait);
    ASSERT_TRUE(place.ok()) << place.status();
    place->CountRecord();
  }
  static NamespaceSettings AtMost(std::int64_t records) {
    NamespaceSettings settings;
    settings.max_records = records;
    return settings;
  }
};

// The pass over "a" takes longer than the records of "b" live.
TEST_F(UsageTurnsTest, GrantsThatEndedDuringThePassOverAnotherNamespaceFillNothing) {
  Serve({"a", "b"}, AtMost(15));
  UsageMeter meter(store_, tenants_, options_, clock_);
  ASSERT_TRUE(meter.RunOnce().ok());
  for (int i = 0; i < 5; ++i) Grant("b", absl::Hours(1));
  clock_.Advance(absl::Seconds(10));
  store_.steps.clear();
  store_.on_step = [this] {
    if (store_.steps.size() != 1) return;
    ASSERT_EQ(store_.steps.front(), "a");
    EXPECT_TRUE(IsFull("b"));
    clock_.Advance(absl::Hours(2));
    EXPECT_FALSE(IsFull("b"));
  };
  EXPECT_TRUE(meter.RunOnce().ok());
}

TEST_F(UsageTurnsTest, ASmallNamespaceIsMeasuredAgainWhileALargeOneIsRead) {
  Serve({"large", "small"}, AtMost(100));
  store_.rows["small"] = 1;
  UsageMeter meter(store_, tenants_, options_, clock_);
  int of_small = 0;
  store_.on_step = [&] {
    if (store_.steps.back() == "large") clock_.Advance(options_.interval / 2);
    if (store_.steps.back() == "small" && observer_.records.count("large") == 0) ++of_small;
  };
  EXPECT_TRUE(meter.RunOnce().ok());
  EXPECT_EQ(observer_.records["large"], 10);
  EXPECT_EQ(of_small, 5);
}

TEST_F(UsageTurnsTest, EverySecondTurnIsOfTheNamespacesWhoseQuotaWasReached) {
  Serve({"a", "b", "c", "d"}, AtMost(10));
  UsageMeter meter(store_, tenants_, options_, clock_);
  ASSERT_TRUE(meter.RunOnce().ok());
  EXPECT_TRUE(IsFull("d"));
  clock_.Advance(absl::Seconds(10));
  store_.steps.clear();
  EXPECT_TRUE(meter.RunOnce().ok());
  const std::vector<std::string> first(store_.steps.begin(), store_.steps.begin() + 8);
  EXPECT_EQ(first, (std::vector<std::string>{"d", "a", "d", "b", "d", "c", "d", "d"}));
}

TEST_F(UsageTurnsTest, AfterAnErrorAMeasurementContinues) {
  Serve({"a"}, AtMost(100));
  UsageMeter meter(store_, tenants_, options_, clock_);
  store_.on_step = [this] { store_.fails = store_.steps.size() == 6; };
  EXPECT_FALSE(meter.RunOnce().ok());
  EXPECT_EQ(store_.visited, 5);
  EXPECT_TRUE(meter.RunOnce().ok()) << "it is not due";
  EXPECT_EQ(store_.visited, 5);
  clock_.Advance(options_.interval);
  EXPECT_TRUE(meter.RunOnce().ok());
  EXPECT_EQ(store_.visited, 10);
  EXPECT_EQ(observer_.records["a"], 10);
}

TEST_F(UsageTurnsTest, ANamespaceWithoutAQuotaAnyMoreIsNotMeasured) {
  Serve({"a", "b"}, AtMost(100));
  UsageMeter meter(store_, tenants_, options_, clock_);
  store_.on_step = [this] { tenants_.Configure({{"a", {}}, {"b", AtMost(100)}}); };
  EXPECT_TRUE(meter.RunOnce().ok());
  EXPECT_EQ(observer_.records, (std::map<std::string, std::int64_t>{{"b", 10}}));
  EXPECT_EQ(std::count(store_.steps.begin(), store_.steps.end(), "a"), 1);
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
