#include "server/service/sweeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "server/observability/metrics.h"
#include "server/store/memory/memory_store.h"
#include "server/testing/gated_store.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {
namespace {

ReserveOp NewReserve(int number, LeaseExpiry expiry = LeaseExpiry::kTakeOver) {
  ReserveOp op;
  op.key = {"payments", "tenant", "/p.P/Charge", "key-" + std::to_string(number)};
  op.id = RecordIdFor(op.key);
  op.fingerprints = {{1, std::string(32, 'f')}};
  op.retention = absl::Hours(1);
  op.on_lease_expiry = expiry;
  return op;
}

// Records the events that it receives, and lets a test wait for them.
class Steps final : public Observer {
 public:
  void SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration) override {
    MutexLock lock(mutex_);
    steps_.push_back(step.ok() ? step->removed : -1);
    changed_.NotifyAll();
  }
  void UnknownEnded(const absl::StatusOr<EndUnknownStep>& step) override {
    MutexLock lock(mutex_);
    if (!step.ok()) ++failed_ends_;
  }
  void SweeperStarted(absl::Duration interval) override {
    MutexLock lock(mutex_);
    interval_ = interval;
  }
  // True once there are `count`.
  bool WaitForCount(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (steps_.size() < count) {
      if (!changed_.WaitUntil(lock, deadline)) return false;
    }
    return true;
  }
  std::vector<std::int64_t> removed() {
    MutexLock lock(mutex_);
    return steps_;
  }
  int failed_ends() {
    MutexLock lock(mutex_);
    return failed_ends_;
  }
  absl::Duration interval() {
    MutexLock lock(mutex_);
    return interval_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::int64_t> steps_ ABSL_GUARDED_BY(mutex_);
  int failed_ends_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration interval_ ABSL_GUARDED_BY(mutex_);
};

Sweeper::Options Unpaced(int batch) {
  Sweeper::Options options;
  options.interval = absl::ZeroDuration();
  options.batch = batch;
  options.min_rest = 0;
  options.removals_per_second = 1e12;
  options.visits_per_second = 1e12;
  return options;
}

// Ends no UNKNOWN records of these namespaces.
class FailingEnds final : public StoreDecorator<FailingEnds> {
 public:
  using StoreDecorator::StoreDecorator;
  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    return (store().*method)(ops);
  }
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override {
    if (failing.count(op.name_space) > 0) {
      return MakeError(Reason::kStoreUnavailable, op.name_space);
    }
    return StoreDecorator::EndUnknown(op);
  }

  std::set<std::string> failing;
};

RecordId Place(std::uint8_t number) {
  Uuid::Bytes bytes{};
  bytes[0] = number;
  return RecordId(bytes);
}

// Stretches of five records, all quiet but one; records its requests.
struct Stretches {
  SweepProgress Sweep(const SweepOp& op) {
    ops.push_back(op);
    const int begin = op.after.value_or(RecordId()).bytes()[0];
    SweepProgress step;
    step.visited = 5;
    step.quiet = begin == restless ? absl::ZeroDuration() : quiet;
    if (begin < count) step.next = Place(static_cast<std::uint8_t>(begin + 1));
    return step;
  }

  int count = 10;
  int restless = -1;
  absl::Duration quiet = absl::Hours(1);
  std::vector<SweepOp> ops;
};

class SweeperTest : public ::testing::Test {
 protected:
  void Reserve(const ReserveOp& op) {
    const auto verdicts = store_.Reserve(absl::MakeConstSpan(&op, 1));
    ASSERT_TRUE(verdicts[0].ok()) << verdicts[0].status();
  }

  // Every later sweep of scripted_.
  void AnswerSweeps(absl::StatusOr<SweepProgress> answer) {
    scripted_.AnswerSweeps([answer = std::move(answer)](const SweepOp&) { return answer; });
  }

  // The same from `stretches`, each step of which takes `step` by clock_.
  void AnswerSweepsIn(absl::Duration step, Stretches& stretches) {
    scripted_.AnswerSweeps([this, step, &stretches](const SweepOp& op) {
      clock_.Advance(step);
      return stretches.Sweep(op);
    });
  }
  Sweeper::Options ByItsClock() const {
    Sweeper::Options options = Unpaced(5);
    options.clock = &clock_;
    return options;
  }

  ManualClock clock_;
  MemoryStore store_{clock_};
  GatedStore scripted_{store_};
  Steps steps_;
};

TEST_F(SweeperTest, RemovesWhatIsForgottenInSmallBatches) {
  for (int i = 0; i < 25; ++i) Reserve(NewReserve(i));
  clock_.Advance(absl::Hours(2));
  for (int i = 25; i < 30; ++i) Reserve(NewReserve(i));

  Sweeper sweeper(store_, steps_, Unpaced(10));
  const absl::StatusOr<Sweeper::Pass> pass = sweeper.RunOnce();
  ASSERT_TRUE(pass.ok()) << pass.status();
  EXPECT_EQ(pass->removed, 25);
  EXPECT_FALSE(pass->cut_short);
  EXPECT_GE(steps_.removed().size(), 3u);
  for (const std::int64_t removed : steps_.removed()) EXPECT_LE(removed, 10);

  const ReserveOp live = NewReserve(27);
  const GetOp get{live.id, live.key};
  EXPECT_TRUE(store_.Get(absl::MakeConstSpan(&get, 1))[0].ok());
  EXPECT_EQ(sweeper.RunOnce()->removed, 0);
}

TEST_F(SweeperTest, MarksLapsedReservationsThatWantRecovery) {
  Reserve(NewReserve(1, LeaseExpiry::kRequireRecovery));
  Reserve(NewReserve(2));
  clock_.Advance(absl::Minutes(10));
  Sweeper sweeper(store_, steps_, Unpaced(10));
  const absl::StatusOr<Sweeper::Pass> pass = sweeper.RunOnce();
  ASSERT_TRUE(pass.ok()) << pass.status();
  EXPECT_EQ(pass->marked_unknown, 1);
  EXPECT_EQ(pass->removed, 0);
}

TEST_F(SweeperTest, AnErrorEndsThePass) {
  AnswerSweeps(MakeError(Reason::kStoreUnavailable, "away"));
  Sweeper sweeper(scripted_, steps_, Unpaced(10));
  EXPECT_EQ(sweeper.RunOnce().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(steps_.removed(), std::vector<std::int64_t>{-1});
}

TEST_F(SweeperTest, LeavesTheStoreToAnotherReplica) {
  SweepProgress progress;
  progress.elsewhere = true;
  AnswerSweeps(progress);
  Sweeper sweeper(scripted_, steps_, Unpaced(10));
  const absl::StatusOr<Sweeper::Pass> pass = sweeper.RunOnce();
  ASSERT_TRUE(pass.ok());
  EXPECT_TRUE(pass->cut_short);
  EXPECT_EQ(steps_.removed().size(), 1u);
}

TEST_F(SweeperTest, PausesBetweenBatches) {
  for (int i = 0; i < 25; ++i) Reserve(NewReserve(i));
  clock_.Advance(absl::Hours(2));
  Sweeper::Options options = Unpaced(10);
  // 10 records every 20 ms.
  options.removals_per_second = 500;
  options.visits_per_second = 500;
  options.max_rest = 1e9;
  Sweeper sweeper(store_, steps_, options);
  const auto began = std::chrono::steady_clock::now();
  ASSERT_EQ(sweeper.RunOnce()->removed, 25);
  const auto pauses = static_cast<int>(steps_.removed().size()) - 1;
  ASSERT_GE(pauses, 2);
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(40)) << pauses;
}

// A store with endless work: without the interruption Stop() would take an hour.
TEST_F(SweeperTest, StopsInThePauseBetweenBatches) {
  SweepProgress progress;
  progress.removed = 10;
  progress.visited = 10;
  progress.next = RecordId{};
  AnswerSweeps(progress);
  Sweeper::Options options = Unpaced(10);
  options.removals_per_second = 1.0 / 360;
  options.max_rest = 1e12;
  Sweeper sweeper(scripted_, steps_, options);
  sweeper.Start();
  ASSERT_TRUE(steps_.WaitForCount(1));
  sweeper.Stop();
  EXPECT_EQ(steps_.removed().size(), 1u);
}

TEST(SweeperPaceTest, RestsAtLeastAsLongAsAStepTook) {
  const Sweeper::Options options;
  SweepProgress step;
  step.visited = 500;
  step.removed = 500;
  // A store under load: half of the sweep's time at most, with any amount of work left.
  const absl::Duration slow = absl::Milliseconds(80);
  EXPECT_EQ(Sweeper::PauseAfter(step, slow, absl::Hours(1), options), slow);
  step.removed = 0;
  EXPECT_EQ(Sweeper::PauseAfter(step, slow, absl::ZeroDuration(), options), slow);
}

TEST(SweeperPaceTest, KeepsToItsRateBesideOthersAndIsFasterAlone) {
  const Sweeper::Options options;
  SweepProgress step;
  step.visited = 500;
  step.removed = 500;
  // 10,000 a second are 500 in 50 ms.
  EXPECT_EQ(Sweeper::PauseAfter(step, absl::Milliseconds(20), absl::ZeroDuration(), options),
            absl::Milliseconds(30));
  // A backlog that does not end doubles the rate.
  EXPECT_EQ(Sweeper::PauseAfter(step, absl::Milliseconds(5), options.growth, options),
            absl::Milliseconds(20));
  // Alone it takes a tenth of the time.
  EXPECT_EQ(Sweeper::PauseAfter(step, absl::Milliseconds(2), absl::ZeroDuration(), options),
            absl::Milliseconds(18));
}

TEST(SweeperPaceTest, LooksAtNoMoreThanItsRateWhereNothingIsToBeDone) {
  const Sweeper::Options options;
  SweepProgress step;
  step.visited = 500;
  EXPECT_EQ(Sweeper::PauseAfter(step, absl::Milliseconds(1), absl::ZeroDuration(), options),
            absl::Milliseconds(49));
}

TEST_F(SweeperTest, LeavesQuietStretchesOut) {
  Stretches stretches;
  scripted_.AnswerSweeps([&](const SweepOp& op) { return stretches.Sweep(op); });
  stretches.restless = 4;
  Sweeper sweeper(scripted_, steps_, Unpaced(5));
  ASSERT_TRUE(sweeper.RunOnce().ok());
  EXPECT_EQ(stretches.ops.size(), 11u);
  stretches.ops.clear();
  ASSERT_TRUE(sweeper.RunOnce().ok());
  // The one that is not quiet, up to the beginning of the next one; and the end, where new records
  // appear.
  ASSERT_EQ(stretches.ops.size(), 2u);
  EXPECT_EQ(stretches.ops[0].after, Place(4));
  EXPECT_EQ(stretches.ops[0].until, Place(5));
  EXPECT_EQ(stretches.ops[1].after, Place(10));
  EXPECT_EQ(stretches.ops[1].until, std::nullopt);
}

TEST_F(SweeperTest, LooksAgainOnceAStretchIsNoLongerQuietOrTrusted) {
  Stretches stretches;
  AnswerSweepsIn(absl::Milliseconds(1), stretches);
  Sweeper::Options options = ByItsClock();
  stretches.quiet = absl::Nanoseconds(1);
  Sweeper hasty(scripted_, steps_, options);
  ASSERT_TRUE(hasty.RunOnce().ok());
  stretches.ops.clear();
  ASSERT_TRUE(hasty.RunOnce().ok());
  EXPECT_EQ(stretches.ops.size(), 11u);

  stretches.quiet = absl::InfiniteDuration();
  options.trust = absl::Nanoseconds(1);
  Sweeper sceptic(scripted_, steps_, options);
  ASSERT_TRUE(sceptic.RunOnce().ok());
  // It trusts for twice the time of a pass.
  clock_.Advance(2 * 11 * absl::Milliseconds(1));
  stretches.ops.clear();
  ASSERT_TRUE(sceptic.RunOnce().ok());
  EXPECT_EQ(stretches.ops.size(), 11u);
}

// Another replica's passes meet this one's often, and change nothing that it knows.
TEST_F(SweeperTest, GoesOnAfterAStepOfAnotherReplicaAndKeepsWhatItKnows) {
  Stretches stretches;
  int until_elsewhere = -1;
  scripted_.AnswerSweeps([&](const SweepOp& op) {
    SweepProgress step = stretches.Sweep(op);
    if (until_elsewhere-- != 0) return step;
    step = SweepProgress();
    step.elsewhere = true;
    step.next = op.after;
    return step;
  });
  stretches.restless = 4;
  Sweeper::Options options = Unpaced(5);
  options.turn_pause = absl::Milliseconds(1);
  Sweeper sweeper(scripted_, steps_, options);
  ASSERT_TRUE(sweeper.RunOnce().ok());
  stretches.ops.clear();
  until_elsewhere = 1;
  const auto met = sweeper.RunOnce();
  ASSERT_TRUE(met.ok());
  EXPECT_FALSE(met->cut_short);
  ASSERT_EQ(stretches.ops.size(), 3u);
  EXPECT_EQ(stretches.ops[1].after, Place(10));
  EXPECT_EQ(stretches.ops[2].after, Place(10)) << "again";
  // One that has read nothing yet leaves it to the other.
  until_elsewhere = 0;
  EXPECT_TRUE(sweeper.RunOnce()->cut_short);
  stretches.ops.clear();
  ASSERT_TRUE(sweeper.RunOnce().ok());
  EXPECT_EQ(stretches.ops.size(), 2u) << "the quiet ones are left out";
}

TEST_F(SweeperTest, APassThatAnotherReplicaNeverLetsGoOnEnds) {
  Stretches stretches;
  scripted_.AnswerSweeps([&](const SweepOp& op) {
    SweepProgress step = stretches.Sweep(op);
    step.elsewhere = stretches.ops.size() > 1;
    return step;
  });
  Sweeper::Options options = Unpaced(5);
  options.turn_pause = absl::Microseconds(1);
  Sweeper sweeper(scripted_, steps_, options);
  EXPECT_TRUE(sweeper.RunOnce()->cut_short);
  EXPECT_EQ(stretches.ops.size(), 10u);
}

// Removal that keeps up with new records, or a first pass over a large table, takes hours.
TEST_F(SweeperTest, WalksTheRangesThatTheStoreNamesBesideALongPass) {
  constexpr int kSteps = 100;
  int begun = 0;
  int ended = 0;
  int steps = 0;
  scripted_.AnswerSweeps([&](const SweepOp& op) {
    SweepProgress step;
    step.turns = {{Place(0x10), Place(0x80)}, {Place(0x80), std::nullopt}};
    const std::uint8_t at = op.after.value_or(RecordId()).bytes()[0];
    if (at < 0x10) {
      EXPECT_EQ(op.until, std::nullopt) << "nothing is quiet";
      if (++steps < kSteps) step.next = Place(1);
    } else if (at < 0x80) {
      EXPECT_EQ(op.until, Place(0x80));
      begun += at == 0x10 ? 1 : 0;
      step.next = Place(at == 0x10 ? 0x11 : 0x80);
    } else {
      ++ended;
    }
    return step;
  });
  Sweeper sweeper(scripted_, steps_, Unpaced(5));
  ASSERT_TRUE(sweeper.RunOnce().ok());
  EXPECT_GT(begun, kSteps / 4);
  EXPECT_GT(ended, kSteps / 4);
}

TEST_F(SweeperTest, ARangeOfItsOwnBeginsWhereAKnownStretchDoes) {
  Stretches stretches;
  bool has_turns = false;
  scripted_.AnswerSweeps([&](const SweepOp& op) {
    SweepProgress step = stretches.Sweep(op);
    Uuid::Bytes within{};
    within[0] = 4;
    within[1] = 7;
    if (has_turns) step.turns = {{RecordId(within), Place(6)}};
    return step;
  });
  Sweeper sweeper(scripted_, steps_, Unpaced(5));
  ASSERT_TRUE(sweeper.RunOnce().ok());
  has_turns = true;
  stretches.restless = 10;
  ASSERT_TRUE(sweeper.RunOnce().ok());
  stretches.ops.clear();
  ASSERT_TRUE(sweeper.RunOnce().ok());
  EXPECT_LE(stretches.ops.size(), 2u) << "it is quiet";
}

// More records than it can remember the stretches of.
TEST_F(SweeperTest, JoinsStretchesInPlaceOfForgettingThem) {
  Stretches stretches;
  stretches.count = 20;
  scripted_.AnswerSweeps([&](const SweepOp& op) { return stretches.Sweep(op); });
  Sweeper::Options options = Unpaced(5);
  options.max_quiet_ranges = 10;
  Sweeper sweeper(scripted_, steps_, options);
  ASSERT_TRUE(sweeper.RunOnce().ok());
  EXPECT_EQ(stretches.ops.size(), 21u);
  stretches.ops.clear();
  ASSERT_TRUE(sweeper.RunOnce().ok());
  ASSERT_EQ(stretches.ops.size(), 1u);
  EXPECT_EQ(stretches.ops[0].after, Place(20));
}

// Else the first stretches of a pass were due again before its end, and each pass read all.
TEST_F(SweeperTest, TrustsForLongerWhereAPassTakesLonger) {
  Stretches stretches;
  // As long as the rate permits: it does not pause.
  AnswerSweepsIn(absl::Milliseconds(50), stretches);
  Sweeper::Options options = ByItsClock();
  options.trust = absl::Nanoseconds(1);
  options.visits_per_second = 100;
  Sweeper sweeper(scripted_, steps_, options);
  std::size_t least = 11;
  for (int pass = 0; pass < 5 && least > 1; ++pass) {
    stretches.ops.clear();
    ASSERT_TRUE(sweeper.RunOnce().ok());
    least = std::min(least, stretches.ops.size());
  }
  EXPECT_EQ(least, 1u);
}

TEST_F(SweeperTest, AndWhereTheStoreIsSlow) {
  Stretches stretches;
  AnswerSweepsIn(absl::Seconds(20), stretches);
  Sweeper::Options options = ByItsClock();
  options.trust = absl::Nanoseconds(1);
  Sweeper sweeper(scripted_, steps_, options);
  ASSERT_TRUE(sweeper.RunOnce().ok());
  stretches.ops.clear();
  ASSERT_TRUE(sweeper.RunOnce().ok());
  EXPECT_LT(stretches.ops.size(), 11u);
}

TEST_F(SweeperTest, RepeatsAStepThatWasTooSlowOnASmallerRange) {
  Stretches stretches;
  scripted_.AnswerSweeps([&](const SweepOp& op) {
    SweepProgress step = stretches.Sweep(op);
    if (!op.after && op.narrow < 5) {
      step = SweepProgress();
      step.too_slow = true;
    }
    return step;
  });
  Sweeper sweeper(scripted_, steps_, Unpaced(5));
  const auto pass = sweeper.RunOnce();
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->visited, 11 * 5);
  std::vector<int> narrow;
  for (const SweepOp& op : stretches.ops) narrow.push_back(op.narrow);
  EXPECT_EQ(narrow, (std::vector<int>{0, 4, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0}));
}

TEST_F(SweeperTest, StopsWhileItWaitsForTheNextPass) {
  Sweeper::Options options = Unpaced(10);
  options.interval = absl::Hours(1);
  Sweeper sweeper(store_, steps_, options);
  sweeper.Start();
  sweeper.Stop();
  sweeper.Stop();
  EXPECT_TRUE(steps_.removed().empty());
}

TEST_F(SweeperTest, EndsUnknownRecordsOfNamespacesThatBoundThem) {
  for (const std::string name_space : {"bounded", "other"}) {
    ReserveOp op;
    op.key = {name_space, "scope", "operation", "key"};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {Fingerprint{1, {}}};
    const auto verdict = store_.Reserve({&op, 1}).at(0);
    ASSERT_TRUE(verdict.ok());
    ReleaseOp release{op.key, op.id, std::get<Reserved>(*verdict).token, "", true};
    ASSERT_TRUE(store_.Release({&release, 1}).at(0).ok());
  }
  Sweeper::Options options = Unpaced(10);
  options.unknown_lives = [] {
    return std::map<std::string, absl::Duration>{{"bounded", absl::Hours(1)}};
  };
  Sweeper sweeper(store_, steps_, options);
  EXPECT_EQ(sweeper.RunOnce()->unknown_ended, 0);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(sweeper.RunOnce()->unknown_ended, 1);
  EXPECT_EQ(store_.Inspect()->unknown_records, 1) << "the other namespace keeps its own";
}

TEST_F(SweeperTest, AnErrorOfANamespacesUnknownRecordsEndsNothing) {
  Reserve(NewReserve(1));
  ReserveOp unknown = NewReserve(2, LeaseExpiry::kRequireRecovery);
  unknown.key.name_space = "middle";
  unknown.id = RecordIdFor(unknown.key);
  Reserve(unknown);
  clock_.Advance(absl::Hours(2));
  FailingEnds failing(store_);
  failing.failing = {"first", "last"};
  Sweeper::Options options = Unpaced(10);
  options.unknown_lives = [] {
    const absl::Duration life = absl::Hours(1);
    return std::map<std::string, absl::Duration>{{"first", life}, {"last", life}, {"middle", life}};
  };
  Sweeper sweeper(failing, steps_, options);
  EXPECT_EQ(sweeper.RunOnce().status().message(), "first");
  EXPECT_EQ(steps_.removed(), std::vector<std::int64_t>{1}) << "the sweep took place";
  EXPECT_EQ(steps_.failed_ends(), 2);
  EXPECT_EQ(store_.Inspect()->unknown_records, 1);
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(sweeper.RunOnce().ok());
  EXPECT_EQ(store_.Inspect()->unknown_records, 0) << "the next namespace had its turn";
}

double ValueOf(const Metrics& metrics, const std::string& name) {
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    if (family.name != name) continue;
    const bool is_counter = family.type == prometheus::MetricType::Counter;
    return is_counter ? family.metric.at(0).counter.value : family.metric.at(0).gauge.value;
  }
  return -1;
}

TEST_F(SweeperTest, AFailedPassCountsOnceAndAWholeOneSetsItsTime) {
  FailingEnds failing(scripted_);
  Sweeper::Options options = Unpaced(10);
  options.unknown_lives = [&failing] {
    std::map<std::string, absl::Duration> lives;
    for (const std::string name : {"a", "b", "c", "d"}) {
      failing.failing.insert(name);
      lives.emplace(name, absl::Hours(1));
    }
    return lives;
  };
  AnswerSweeps(MakeError(Reason::kStoreUnavailable, "away"));
  Metrics metrics;
  Sweeper sweeper(failing, metrics, options);
  EXPECT_FALSE(sweeper.RunOnce().ok());
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_errors_total"), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_completed_timestamp_seconds"), 0);

  SweepProgress elsewhere;
  elsewhere.elsewhere = true;
  AnswerSweeps(elsewhere);
  Sweeper refused(scripted_, metrics, Unpaced(10));
  EXPECT_TRUE(refused.RunOnce()->cut_short);
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_completed_timestamp_seconds"), 0);

  // All records are swept, but an alert has to fire for the others, also while a sweep takes hours.
  std::vector<double> errors_meanwhile;
  scripted_.AnswerSweeps([&](const SweepOp&) {
    errors_meanwhile.push_back(ValueOf(metrics, "idempotency_sweep_errors_total"));
    return SweepProgress();
  });
  Sweeper without_ends(failing, metrics, options);
  EXPECT_FALSE(without_ends.RunOnce().ok());
  EXPECT_EQ(errors_meanwhile, std::vector<double>{2});
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_errors_total"), 2);
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_completed_timestamp_seconds"), 0);

  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_TRUE(refused.RunOnce().ok());
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_errors_total"), 2);
  // The gauge has whole seconds.
  EXPECT_GE(ValueOf(metrics, "idempotency_sweep_completed_timestamp_seconds"), before - 1);
}

TEST_F(SweeperTest, ContinuesAfterAFailedPass) {
  AnswerSweeps(MakeError(Reason::kStoreUnavailable, "away"));
  Sweeper::Options options = Unpaced(10);
  options.interval = absl::Milliseconds(1);
  Sweeper sweeper(scripted_, steps_, options);
  sweeper.Start();
  EXPECT_EQ(steps_.interval(), absl::Milliseconds(1));
  EXPECT_TRUE(steps_.WaitForCount(3));
}

}  // namespace
}  // namespace idempotency::internal
