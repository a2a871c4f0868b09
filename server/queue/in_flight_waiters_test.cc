#include "server/queue/in_flight_waiters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/testing/answers.h"
#include "core/testing/manual_clock.h"
#include "core/testing/watched_clock.h"
#include "grpc_idempotency/errors.h"
#include "server/store/limits.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"

namespace idempotency::internal {
namespace {

using ::testing::SizeIs;
using Counts = CountingObserver::Counts;

constexpr Batcher::Deadline kNoDeadline = Batcher::kNoDeadline;
constexpr absl::Duration kLongWait = absl::Seconds(20);

// The clock of the waiters is not the store's, so that a test sets each of them.
class InFlightWaitersTest : public ::testing::Test {
 protected:
  ~InFlightWaitersTest() override {
    store_.Open();
    room_.reset();
    batcher_.reset();
  }

  InFlightWaiters& Make(std::size_t max_waiters = 1000, int threads = 2) {
    BatcherOptions batching;
    batching.threads = threads;
    batching.max_bytes = max_bytes_;
    batching.clock = &clock_;
    batcher_ = std::make_unique<Batcher>(store_, observer_, batching);
    InFlightWaitersOptions options;
    options.max_waiters = max_waiters;
    options.clock = &counted_;
    options.max_reads = max_reads_;
    options.first_pause = first_pause_;
    options.longest_pause = longest_pause_;
    room_ = std::make_unique<InFlightWaiters>(*batcher_, observer_, options);
    return *room_;
  }

  // Another caller holds the record.
  Uuid Hold(ReserveOp op) { return std::get<Reserved>(*memory_.Reserve({op})[0]).token; }

  InFlightWaiters::WaiterPtr Start(ReserveOp op, absl::Duration max_wait = kLongWait,
                                   Batcher::Deadline deadline = kNoDeadline) {
    const auto call = room_->NewWaiter(std::move(op), deadline, max_wait, answers_.Sink());
    room_->Start(call);
    return call;
  }
  void StartWaiters(const ReserveOp& op, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) Start(op);
    ASSERT_TRUE(observer_.Await(&Counts::waiters, count));
  }

  // As another replica would.
  void CompleteElsewhere(std::string_view name, const Uuid& token) {
    ASSERT_TRUE(memory_.Complete({CompleteNamed(name, token)})[0].ok());
  }
  // Through this process.
  void CompleteHere(std::string_view name, const Uuid& token) {
    CompleteElsewhere(name, token);
    room_->OnRecordChanged(IdNamed(name));
  }
  Record Stored(std::string_view name) { return *memory_.Get({GetNamed(name)})[0]; }

  // The number of operations of a kind that the store received.
  std::size_t SentToStore(OperationKind kind) {
    std::size_t sent = 0;
    for (const auto& call : store_.calls()) sent += call.kind == kind ? call.ids.size() : 0;
    return sent;
  }
  // That the store is not called again within a short time.
  void ExpectNoFurtherCall(std::size_t calls) {
    EXPECT_FALSE(store_.AwaitCalls(calls + 1, std::chrono::milliseconds(100)));
  }

  // The periodic read of that number, until it is handled, with one worker: it answers a
  // reservation of a free record behind it.
  void ReadPeriodically(std::size_t number) {
    clock_.Advance(absl::Milliseconds(300));
    ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, number));
    Start(ReserveNamed("free " + std::to_string(number)));
    ASSERT_THAT(answers_.Await(number), SizeIs(number));
  }

  template <typename T>
  std::size_t Count(std::size_t await) {
    std::size_t count = 0;
    for (const auto& answer : answers_.Await(await)) count += As<T>(answer) != nullptr ? 1 : 0;
    return count;
  }

  std::size_t max_bytes_ = BatcherOptions().max_bytes;
  // No read without a reason.
  void ReadNothingPeriodically() { first_pause_ = longest_pause_ = absl::Hours(1); }

  std::size_t max_reads_ = InFlightWaitersOptions().max_reads;
  absl::Duration first_pause_ = InFlightWaitersOptions().first_pause;
  absl::Duration longest_pause_ = InFlightWaitersOptions().longest_pause;
  ManualClock store_clock_;
  ManualClock clock_;
  // The waiters', whose reads are counted.
  std::atomic<int> clock_reads_{0};
  WatchedClock counted_{clock_, [this] { ++clock_reads_; }};
  MemoryStore memory_{store_clock_};
  GatedStore store_{memory_};
  CountingObserver observer_;
  Answers<absl::StatusOr<Verdict>> answers_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<InFlightWaiters> room_;
};

TEST_F(InFlightWaitersTest, AnswersAtOnceWhatNeedsNoWait) {
  Make();
  Start(ReserveNamed("free"));
  EXPECT_EQ(Count<Reserved>(1), 1u);
}

TEST_F(InFlightWaitersTest, DoesNotWaitUnlessRequested) {
  Make();
  Hold(ReserveNamed("held"));
  Start(ReserveNamed("held"), absl::ZeroDuration());
  EXPECT_EQ(Count<InFlight>(1), 1u);
}

// It has a waiter to check, much later, and reads the clock no more often than the other operations
// require.
TEST_F(InFlightWaitersTest, TheTimerSleepsWhileNothingIsDue) {
  Make();
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 1);
  constexpr int kOthers = 300;
  const int before = clock_reads_.load();
  for (int i = 0; i < kOthers; ++i) {
    Start(ReserveNamed("free " + std::to_string(i)));
    ASSERT_EQ(answers_.Await(i + 1).size(), i + 1u);
  }
  EXPECT_LT(clock_reads_.load() - before, 6 * kOthers);
}

TEST_F(InFlightWaitersTest, AReadThatHasNoPlaceYetFollowsTheOneThatIsUnderWay) {
  max_reads_ = 1;
  Make();
  const Uuid one = Hold(ReserveNamed("one"));
  const Uuid two = Hold(ReserveNamed("two"));
  Start(ReserveNamed("one"), absl::Minutes(10));
  Start(ReserveNamed("two"), absl::Minutes(10));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  CompleteElsewhere("one", one);
  CompleteElsewhere("two", two);
  store_.Shut();
  const std::size_t before = store_.calls().size();
  // Both are due, and one is read.
  clock_.Advance(absl::Milliseconds(100));
  ASSERT_TRUE(store_.AwaitCalls(before + 1));
  store_.Open();
  EXPECT_EQ(Count<Replay>(2), 2u);
}

// Chosen as its group's next try, and cancelled before it was sent.
TEST_F(InFlightWaitersTest, OneThatLeftBeforeItsTryWasSentIsNotGranted) {
  Make();
  Hold(ReserveNamed("held"));
  const InFlightWaiters::WaiterPtr leaves = Start(ReserveNamed("held"), absl::Minutes(10));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  // Its wait ends in the same turn of the timer, before the other is sent.
  const auto first =
      room_->NewWaiter(ReserveNamed("held"), kNoDeadline, absl::Seconds(29),
                       [this, &leaves, sink = answers_.Sink()](absl::StatusOr<Verdict> answer) {
                         room_->Cancel(leaves);
                         sink(std::move(answer));
                       });
  room_->Start(first);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  // Past the lease, so that one of the group tries.
  store_clock_.Advance(absl::Seconds(31));
  clock_.Advance(absl::Seconds(31));
  EXPECT_EQ(Count<InFlight>(2), 1u);
  room_->Close();
  batcher_->Close();
  EXPECT_EQ(Stored("held").attempt, 1u);
}

// After every kind of end of a wait: otherwise every key that a caller ever waited for would take
// memory.
TEST_F(InFlightWaitersTest, NothingIsKeptOfARecordWithoutWaiters) {
  Make();
  const Uuid completed = Hold(ReserveNamed("completed"));
  Hold(ReserveNamed("left"));
  Hold(ReserveNamed("over"));
  Start(ReserveNamed("completed"));
  const InFlightWaiters::WaiterPtr leaves = Start(ReserveNamed("left"));
  Start(ReserveNamed("over"), absl::Seconds(5));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 3));
  EXPECT_EQ(room_->records(), 3u);

  CompleteHere("completed", completed);
  EXPECT_EQ(answers_.Await(1).size(), 1u);
  EXPECT_EQ(room_->records(), 2u);
  room_->Cancel(leaves);
  EXPECT_EQ(answers_.Await(2).size(), 2u);
  EXPECT_EQ(room_->records(), 1u);
  clock_.Advance(absl::Seconds(6));
  EXPECT_EQ(Count<InFlight>(3), 1u);
  EXPECT_EQ(room_->records(), 0u);
}

TEST_F(InFlightWaitersTest, ACompletionSeenHereWakesEveryWaiterWithOneRead) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 64);

  CompleteHere("held", token);
  ASSERT_EQ(Count<Replay>(64), 64u);
  const auto answers = answers_.Await(64);
  EXPECT_EQ(As<Replay>(answers[63])->reply, CompleteNamed("held", token).reply);
  EXPECT_EQ(store_.CallsOf(OperationKind::kGet), 1u);
  std::size_t reserved = 0;
  for (const auto& call : store_.calls()) {
    if (call.kind == OperationKind::kReserve) reserved += call.ids.size();
  }
  EXPECT_EQ(reserved, 64u) << "nobody sends twice";
}

TEST_F(InFlightWaitersTest, ACompletionByAnotherReplicaIsFoundByReading) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 8);

  CompleteElsewhere("held", token);
  EXPECT_EQ(answers_.size(), 0u);
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_EQ(Count<Replay>(8), 8u);
  EXPECT_EQ(store_.CallsOf(OperationKind::kGet), 2u) << "one that looks, one that is confirmed";
}

// A failover may revert the result of a read until the standby has it.
TEST_F(InFlightWaitersTest, NothingIsAnsweredFromAReadThatTheStandbyDoesNotConfirm) {
  Make(/*max_waiters=*/1000, /*threads=*/1);
  const Uuid completes = Hold(ReserveNamed("completed"));
  const Uuid fails = Hold(ReserveNamed("unknown"));
  ReserveOp expires = ReserveNamed("another");
  expires.lease = expires.retention = absl::Seconds(1);
  Hold(expires);
  for (const auto name : {"completed", "unknown", "another"}) {
    for (int i = 0; i < 4; ++i) Start(ReserveNamed(name));
  }
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 12));

  store_.FailConfirmedReads(Reason::kStoreUnavailable);
  CompleteElsewhere("completed", completes);
  ReleaseOp release = ReleaseNamed("unknown", fails);
  release.outcome_unknown = true;
  ASSERT_TRUE(memory_.Release({release})[0].ok());
  store_clock_.Advance(absl::Seconds(1));
  const Uuid other = Hold(ReserveNamed("another", 'b'));
  CompleteElsewhere("another", other);
  // The only worker answers a read behind them once the waiters' group has their answers.
  const auto settle = [&] {
    Answers<absl::StatusOr<Record>> behind;
    batcher_->GetForWaiter(GetNamed("completed"), behind.Sink());
    EXPECT_THAT(behind.Await(1), SizeIs(1));
  };
  for (const auto name : {"completed", "unknown", "another"}) room_->OnRecordChanged(IdNamed(name));
  settle();
  EXPECT_EQ(answers_.size(), 0u) << "this process has seen them move";
  clock_.Advance(absl::Milliseconds(100));
  ASSERT_TRUE(observer_.AwaitAtLeast(&Counts::store_failures, 6));
  settle();
  EXPECT_EQ(answers_.size(), 0u) << "a periodic read has found them";
  EXPECT_EQ(observer_.counts().waiters, 12u);

  store_.FailConfirmedReads(std::nullopt);
  // Also the pause behind a read that still failed, whose answer came later.
  for (int pause = 0; pause < 2; ++pause) {
    clock_.Advance(absl::Milliseconds(250));
    settle();
  }
  EXPECT_EQ(Count<Replay>(12), 4u);
  EXPECT_EQ(Count<OutcomeUnknown>(12), 4u);
  EXPECT_EQ(Count<Mismatch>(12), 4u);
}

TEST_F(InFlightWaitersTest, ARecordIsReadOnceAtATime) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 8);
  const std::size_t before = store_.calls().size();
  store_.Shut();
  clock_.Advance(absl::Milliseconds(20));
  ASSERT_TRUE(store_.AwaitCalls(before + 1));
  // The read under way saw the earlier state of the record, so these cause one more.
  store_.Admit();
  room_->OnRecordChanged(IdNamed("held"));
  room_->OnRecordChanged(IdNamed("held"));
  ASSERT_TRUE(store_.AwaitCalls(before + 2));
  CompleteElsewhere("held", token);
  store_.Open();

  EXPECT_EQ(Count<Replay>(8), 8u);
  EXPECT_LE(store_.CallsOf(OperationKind::kGet), 3u);
}

TEST_F(InFlightWaitersTest, NothingIsReadBetweenTwoPeriodicReads) {
  // One worker: it has delivered its answers before its next batch.
  Make(/*max_waiters=*/1000, /*threads=*/1);
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 1);
  std::size_t others = 0;
  const auto await_other = [&] {
    Start(ReserveNamed("free " + std::to_string(others)));
    ++others;
    ASSERT_EQ(answers_.Await(others).size(), others);
  };
  for (std::size_t reads = 1; reads <= 3; ++reads) {
    clock_.Advance(absl::Milliseconds(300));
    ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, reads));
    // The read is answered before the first of these is, and a read that followed it at once would
    // come before the second.
    await_other();
    await_other();
    EXPECT_EQ(store_.CallsOf(OperationKind::kGet), reads);
  }
}

TEST_F(InFlightWaitersTest, OneWaiterRunsAfterAReleaseAndTheOthersWaitForIt) {
  Make();
  const Uuid first = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 16);

  ASSERT_TRUE(memory_.Release({ReleaseNamed("held", first)})[0].ok());
  room_->OnRecordChanged(IdNamed("held"));
  ASSERT_EQ(Count<Reserved>(1), 1u);
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 15));
  const Reserved grant = *As<Reserved>(answers_.Await(1)[0]);
  EXPECT_EQ(grant.attempt, 2u);

  CompleteHere("held", grant.token);
  EXPECT_EQ(Count<Replay>(16), 15u);
}

// Another caller released the record, with a pause.
// A client that lost its connection repeats the call with its token, and the daemon may not have
// noticed the loss: the first of the two is granted to nobody.
TEST_F(InFlightWaitersTest, AGrantGoesToEveryWaiterThatHasItsToken) {
  ReadNothingPeriodically();
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  ReserveOp op = ReserveNamed("held");
  op.request_token = Uuid::Random();
  ReserveOp other = ReserveNamed("held");
  other.request_token = Uuid::Random();
  StartWaiters(op, 1);
  Start(other);
  Start(op);
  Start(op);
  Start(ReserveNamed("held"));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 5));

  ASSERT_TRUE(memory_.Release({ReleaseNamed("held", token)})[0].ok());
  room_->OnRecordChanged(IdNamed("held"));
  ASSERT_EQ(Count<Reserved>(3), 3u);
  for (const auto& answer : answers_.Await(3)) {
    EXPECT_EQ(As<Reserved>(answer)->token, Stored("held").token);
  }
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 2));
  EXPECT_EQ(Stored("held").attempt, 2u);
}

// The record changes while the repetition is on its way.
TEST_F(InFlightWaitersTest, AMoveIsNotLostWhileAGrantIsRepeated) {
  ReadNothingPeriodically();
  Make(/*max_waiters=*/1000, /*threads=*/1);
  const Uuid token = Hold(ReserveNamed("held"));
  ReserveOp op = ReserveNamed("held");
  op.request_token = Uuid::Random();
  Start(op);
  Start(op);
  Start(ReserveNamed("held"));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 3));

  ASSERT_TRUE(memory_.Release({ReleaseNamed("held", token)})[0].ok());
  store_.ShutAnswers(OperationKind::kReserve);
  const std::size_t before = store_.CallsOf(OperationKind::kReserve);
  room_->OnRecordChanged(IdNamed("held"));
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kReserve, before + 1));
  // The first copy is granted, and its holder completes before its answer is here.
  CompleteHere("held", Stored("held").token);
  store_.OpenAnswers();
  EXPECT_EQ(Count<Reserved>(3), 1u);
  EXPECT_EQ(Count<Replay>(3), 2u);
}

TEST_F(InFlightWaitersTest, APauseIsWaitedForAndThenOneRuns) {
  Make();
  const Uuid first = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 4);

  ReleaseOp release = ReleaseNamed("held", first);
  release.pause = absl::Seconds(5);
  ASSERT_TRUE(memory_.Release({release})[0].ok());
  const std::size_t before = store_.CallsOf(OperationKind::kReserve);
  room_->OnRecordChanged(IdNamed("held"));
  // One sent its request, got the pause and waits again.
  while (store_.CallsOf(OperationKind::kReserve) == before) std::this_thread::yield();
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 4));

  // Reads while the pause runs change nothing, and no waiter causes another one.
  const std::size_t reads = store_.CallsOf(OperationKind::kGet);
  clock_.Advance(absl::Seconds(1));
  while (store_.CallsOf(OperationKind::kGet) == reads) std::this_thread::yield();
  EXPECT_EQ(answers_.size(), 0u);
  EXPECT_EQ(store_.CallsOf(OperationKind::kReserve), before + 1);

  store_clock_.Advance(release.pause);
  clock_.Advance(release.pause);
  ASSERT_EQ(Count<Reserved>(1), 1u);
  const Reserved grant = *As<Reserved>(answers_.Await(1)[0]);
  EXPECT_EQ(grant.attempt, 2u);
  EXPECT_EQ(grant.previous_attempt, PreviousAttempt::kReleased);
  CompleteHere("held", grant.token);
  EXPECT_EQ(Count<Replay>(4), 3u);
}

TEST_F(InFlightWaitersTest, AWaitThatEndsWithinThePauseReportsTheRest) {
  Make();
  ReleaseOp release = ReleaseNamed("held", Hold(ReserveNamed("held")));
  release.pause = absl::Minutes(5);
  ASSERT_TRUE(memory_.Release({release})[0].ok());
  Start(ReserveNamed("held"), absl::Seconds(2));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  clock_.Advance(absl::Seconds(2));
  ASSERT_EQ(Count<InFlight>(1), 1u);
  const InFlight answer = *As<InFlight>(answers_.Await(1)[0]);
  EXPECT_TRUE(answer.paused);
  EXPECT_EQ(answer.lease_remaining, release.pause - absl::Seconds(2));
  EXPECT_EQ(answer.attempt, 1u);
}

TEST_F(InFlightWaitersTest, OneWaiterTakesOverWhenTheLeaseIsOver) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  Hold(op);
  StartWaiters(op, 4);

  store_clock_.Advance(op.lease);
  clock_.Advance(op.lease);
  ASSERT_EQ(Count<Reserved>(1), 1u);
  EXPECT_EQ(As<Reserved>(answers_.Await(1)[0])->attempt, 2u);
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 3));
  EXPECT_EQ(observer_.counts().take_overs, 1u);
}

TEST_F(InFlightWaitersTest, AReplayThatWasWaitedForHasTheRecordsLabels) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.labels = {{"build", "41"}};
  const Uuid token = Hold(op);
  op.labels = {{"build", "42"}};
  StartWaiters(op, 2);

  CompleteHere("held", token);
  ASSERT_EQ(Count<Replay>(2), 2u);
  const std::map<std::string, std::string> first = {{"build", "41"}};
  for (const auto& answer : answers_.Await(2)) EXPECT_EQ(As<Replay>(answer)->labels, first);
}

TEST_F(InFlightWaitersTest, AnExtendedLeaseIsNotTakenOver) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  const Uuid token = Hold(op);
  StartWaiters(op, 2);

  store_clock_.Advance(absl::Seconds(4));
  ExtendOp extend = ExtendNamed("held", token);
  extend.lease = absl::Seconds(5);
  ASSERT_TRUE(memory_.Extend({extend})[0].ok());
  store_clock_.Advance(absl::Seconds(1));
  const std::size_t before = store_.CallsOf(OperationKind::kReserve);
  clock_.Advance(absl::Seconds(5));
  // One waiter sent its request, got the new lease and waits again.
  while (store_.CallsOf(OperationKind::kReserve) == before) std::this_thread::yield();
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 2));
  EXPECT_EQ(Stored("held").attempt, 1u);

  CompleteHere("held", token);
  EXPECT_EQ(Count<Replay>(2), 2u);
}

// A copy of a large reply for each of thousands of waiters would keep the worker from the store.
TEST_F(InFlightWaitersTest, WaitersShareTheReplyThatAnswersThem) {
  Make();
  const Uuid token = Hold(ReserveNamed("charge"));
  std::vector<const char*> replies;
  Mutex mutex;
  CondVar answered;
  for (int i = 0; i < 3; ++i) {
    room_->Start(room_->NewWaiter(ReserveNamed("charge"), kNoDeadline, kLongWait,
                                  [&](const absl::StatusOr<Verdict>& verdict) {
                                    const MutexLock lock(mutex);
                                    replies.push_back(
                                        std::get<Replay>(*verdict).reply.bytes.data());
                                    answered.NotifyAll();
                                  }));
  }
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 3));
  // Large enough for memory of its own, which AddressSanitizer does not give out again.
  const CompleteOp completion = CompleteNamed("charge", token, std::string(1'000, 'r'));
  ASSERT_TRUE(memory_.Complete({completion})[0].ok());
  room_->OnRecordChanged(IdNamed("charge"));
  MutexLock lock(mutex);
  while (replies.size() < 3) answered.Wait(lock);
  EXPECT_EQ(replies[0], replies[1]);
  EXPECT_EQ(replies[0], replies[2]);
}

TEST_F(InFlightWaitersTest, AnswersAnotherRequestWithAMismatch) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = op.retention = absl::Seconds(1);
  Hold(op);
  StartWaiters(op, 8);

  // The record expires, and its key is used for another request.
  store_clock_.Advance(absl::Seconds(1));
  const Uuid other = Hold(ReserveNamed("held", 'b'));
  CompleteHere("held", other);
  EXPECT_EQ(Count<Mismatch>(8), 8u);
}

// A comparison may take an HMAC (server/sealing), and the waiters of all records share one lock.
TEST_F(InFlightWaitersTest, ARunningAttemptIsComparedWithItsWaitersOnce) {
  Make(/*max_waiters=*/1000, /*threads=*/1);
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 64);
  for (std::size_t reads = 1; reads <= 4; ++reads) ReadPeriodically(reads);
  EXPECT_LE(store_.comparisons(), 1u);
  CompleteHere("held", token);
  EXPECT_EQ(Count<Replay>(64 + 4), 64u);
  EXPECT_LE(store_.comparisons(), 2u);
}

// They take no part in a comparison with a record that lacks the version.
TEST_F(InFlightWaitersTest, FingerprintsOfOtherVersionsCauseNoComparisons) {
  Make(/*max_waiters=*/1000, /*threads=*/1);
  const Uuid token = Hold(ReserveNamed("held"));
  constexpr std::size_t kWaiters = 100;
  for (std::size_t i = 0; i < kWaiters; ++i) {
    ReserveOp op = ReserveNamed("held");
    const Fingerprint of_its_own{2, std::string(32, static_cast<char>(i))};
    op.fingerprints.insert(i % 2 == 0 ? op.fingerprints.begin() : op.fingerprints.end(),
                           of_its_own);
    Start(op);
  }
  ASSERT_TRUE(observer_.Await(&Counts::waiters, kWaiters));
  ReadPeriodically(1);
  EXPECT_EQ(store_.comparisons(), 1u);
  CompleteHere("held", token);
  EXPECT_EQ(Count<Replay>(kWaiters + 1), kWaiters);
  EXPECT_EQ(store_.comparisons(), 2u);
}

// Its first attempt has the number of the earlier record's.
TEST_F(InFlightWaitersTest, ARecordThatFollowsAForgottenOneIsComparedWithItsWaitersToo) {
  Make(/*max_waiters=*/1000, /*threads=*/1);
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(30);
  op.retention = absl::Seconds(30);
  Hold(op);
  StartWaiters(op, 8);
  ReadPeriodically(1);
  store_clock_.Advance(absl::Seconds(30));
  Hold(ReserveNamed("held", 'b'));
  EXPECT_EQ(Stored("held").attempt, 1u);
  clock_.Advance(absl::Milliseconds(300));
  EXPECT_EQ(Count<Mismatch>(1 + 8), 8u) << "the other request still runs";
}

TEST_F(InFlightWaitersTest, AnswersAnUnknownOutcomeToThoseWhoCannotRecover) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Uuid token = Hold(op);
  StartWaiters(op, 4);
  ReserveOp recovers = op;
  recovers.recover = true;
  Start(recovers);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 5));

  ReleaseOp release = ReleaseNamed("held", token);
  release.outcome_unknown = true;
  release.reason = "the bank did not answer";
  ASSERT_TRUE(memory_.Release({release})[0].ok());
  room_->OnRecordChanged(IdNamed("held"));
  EXPECT_EQ(Count<OutcomeUnknown>(5), 4u);
  for (const auto& answer : answers_.Await(5)) {
    const auto* const unknown = As<OutcomeUnknown>(answer);
    if (unknown == nullptr) continue;
    EXPECT_EQ(unknown->cause, OutcomeUnknown::Cause::kReleased);
    EXPECT_EQ(unknown->reason, release.reason);
    EXPECT_EQ(unknown->since, store_clock_.Now());
  }
  EXPECT_EQ(Count<Reserved>(5), 1u);
}

TEST_F(InFlightWaitersTest, TheWaitIsOverAtItsLimit) {
  Make();
  Hold(ReserveNamed("held"));
  Start(ReserveNamed("held"), absl::Seconds(2));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));

  clock_.Advance(absl::Seconds(2));
  ASSERT_EQ(Count<InFlight>(1), 1u);
  const InFlight answer = *As<InFlight>(answers_.Await(1)[0]);
  EXPECT_EQ(answer.attempt, 1u);
  EXPECT_EQ(answer.lease_remaining, limits::kDefaultLease - absl::Seconds(2));
}

TEST_F(InFlightWaitersTest, TheWaitEndsBeforeTheDeadlineOfTheCall) {
  Make();
  Hold(ReserveNamed("held"));
  Start(ReserveNamed("held"), kLongWait, clock_.Monotonic() + std::chrono::seconds(1));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));

  clock_.Advance(absl::Milliseconds(990));
  EXPECT_EQ(Count<InFlight>(1), 1u);
}

TEST_F(InFlightWaitersTest, ACancelledWaiterIsNeverGranted) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  const auto call = Start(ReserveNamed("held"));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));

  room_->Cancel(call);
  ASSERT_THAT(answers_.Await(1), SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(answers_.Await(1)[0].status()));
  EXPECT_EQ(observer_.counts().waiters, 0u);
  ASSERT_TRUE(memory_.Release({ReleaseNamed("held", token)})[0].ok());
  room_->OnRecordChanged(IdNamed("held"));
  room_.reset();
  EXPECT_EQ(Stored("held").state, RecordState::kReleased);
  EXPECT_EQ(Stored("held").attempt, 1u);
  EXPECT_EQ(answers_.size(), 1u);
}

class GrantWhileCancelledTest : public InFlightWaitersTest {
 protected:
  // The caller cancels while the store is granting it the record.
  void Run(const ReserveOp& op) {
    Make();
    store_.Shut();
    const auto call = Start(op);
    ASSERT_TRUE(store_.AwaitCalls(1));
    room_->Cancel(call);
    EXPECT_EQ(answers_.size(), 0u) << "the store may still have another answer";
    store_.Open();
    ASSERT_THAT(answers_.Await(1), SizeIs(1));
    EXPECT_TRUE(absl::IsCancelled(answers_.Await(1)[0].status()));
    // Waits for the release of the grant.
    room_.reset();
  }
};

TEST_F(GrantWhileCancelledTest, IsGivenBack) {
  Run(ReserveNamed("free"));
  EXPECT_EQ(Stored("free").state, RecordState::kReleased);
}

TEST_F(GrantWhileCancelledTest, IsKeptForACallerThatCanRepeatTheCall) {
  ReserveOp op = ReserveNamed("free");
  op.request_token = Uuid::Random();
  Run(op);
  EXPECT_EQ(Stored("free").state, RecordState::kReserved);
}

TEST_F(GrantWhileCancelledTest, OfARecoveryLeavesTheRecordUnknown) {
  ReserveOp op = ReserveNamed("dead");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  Hold(op);
  store_clock_.Advance(op.lease);
  op.recover = true;
  Run(op);
  EXPECT_EQ(Stored("dead").state, RecordState::kUnknown);
}

// A caller that can repeat the call may have done so at another replica, and have its answer: the
// grant that follows would hold the record for nobody.
TEST_F(InFlightWaitersTest, ACallThatIsCancelledInTheQueueIsNotGranted) {
  Make(1000, /*threads=*/1);
  store_.Shut();
  Start(ReserveNamed("occupies"));
  ASSERT_TRUE(store_.AwaitCalls(1));
  ReserveOp op = ReserveNamed("free");
  op.request_token = Uuid::Random();
  const auto call = Start(op);
  room_->Cancel(call);
  store_.Open();

  EXPECT_EQ(Count<Reserved>(2), 1u) << "the one at the store";
  EXPECT_EQ(memory_.Get({GetNamed("free")})[0].status().code(), absl::StatusCode::kNotFound);
}

// The queued call was to run next: another of its record does.
TEST_F(InFlightWaitersTest, ATryThatIsCancelledInTheQueueGivesWayToTheNextWaiter) {
  Make(1000, /*threads=*/1);
  Hold(ReserveNamed("held"));
  ReserveOp op = ReserveNamed("held");
  op.request_token = Uuid::Random();
  const auto leaves = Start(op, absl::Minutes(10));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  Start(ReserveNamed("held"), absl::Minutes(10));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  store_.Shut();
  const std::size_t before = store_.calls().size();
  const auto occupies =
      room_->NewWaiter(ReserveNamed("occupies"), kNoDeadline, kLongWait, [](const auto&) {});
  room_->Start(occupies);
  ASSERT_TRUE(store_.AwaitCalls(before + 1));
  // Past the lease, so that the first waiter tries.
  store_clock_.Advance(absl::Seconds(31));
  clock_.Advance(absl::Seconds(31));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 1));
  room_->Cancel(leaves);
  store_.Open();

  EXPECT_EQ(Count<Reserved>(2), 1u);
  EXPECT_EQ(Stored("held").attempt, 2u);
}

TEST_F(InFlightWaitersTest, AtTheMaximumNewCallersAreTurnedAway) {
  // A namespace takes no more places than it leaves to the others.
  Make(/*max_waiters=*/5);
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 2);

  Start(ReserveNamed("held"));
  EXPECT_EQ(Count<InFlight>(1), 1u);
  EXPECT_EQ(observer_.counts().waiters, 2u);

  ReserveOp calm = ReserveNamed("held");
  calm.key.name_space = "calm";
  calm.id = RecordIdFor(calm.key);
  Hold(calm);
  Start(calm);
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 3)) << "others have their share";
}

TEST_F(InFlightWaitersTest, WhatWaitersWeighIsBounded) {
  max_bytes_ = 100 * 1024;
  Make();
  ReserveOp heavy = ReserveNamed("held");
  for (std::size_t i = 0; i < limits::kMaxLabels; ++i) {
    heavy.labels[std::to_string(i)] = std::string(limits::kMaxLabelValueBytes, 'l');
  }
  const Uuid token = Hold(heavy);
  // One after the other, so that the batcher never holds many.
  std::size_t sent = 0;
  while (answers_.size() == 0 && sent < 100) {
    Start(heavy);
    ++sent;
    while (observer_.counts().waiters + answers_.size() < sent) std::this_thread::yield();
  }
  EXPECT_EQ(Count<InFlight>(1), 1u);
  const std::size_t waiters = observer_.counts().waiters;
  EXPECT_GT(waiters, 1u);
  EXPECT_LE(waiters, max_bytes_ / 4 / (limits::kMaxLabels * limits::kMaxLabelValueBytes));

  CompleteHere("held", token);
  EXPECT_EQ(Count<Replay>(sent), waiters);
  batcher_->Close();
  EXPECT_EQ(batcher_->budget().held(), 0u);
}

TEST_F(InFlightWaitersTest, CloseAnswersEveryWaiterAndAdmitsNoOther) {
  Make();
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 3);

  room_->Close();
  EXPECT_EQ(answers_.size(), 3u);
  Start(ReserveNamed("held"));
  EXPECT_EQ(Count<InFlight>(4), 4u);
  room_->Close();
}

TEST_F(InFlightWaitersTest, AStoreThatCannotBeReadIsReadAgain) {
  Make(/*max_waiters=*/1000, /*threads=*/1);
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 4);
  CompleteElsewhere("held", token);

  store_.Fail(OperationKind::kGet, Reason::kStoreUnavailable);
  clock_.Advance(absl::Milliseconds(20));
  ASSERT_TRUE(observer_.Await(&Counts::store_failures, 1));
  // The only worker answers this after it has notified the waiters.
  Answers<absl::StatusOr<Record>> behind;
  batcher_->Get(GetNamed("held"), kNoDeadline, behind.Sink());
  ASSERT_THAT(behind.Await(1), SizeIs(1));
  EXPECT_EQ(answers_.size(), 0u);
  store_.Fail(OperationKind::kGet, std::nullopt);
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_EQ(Count<Replay>(4), 4u);
}

TEST_F(InFlightWaitersTest, ADamagedRecordIsReportedAndNotRun) {
  Make();
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 4);

  store_.Fail(OperationKind::kGet, Reason::kRecordDamaged);
  room_->OnRecordChanged(IdNamed("held"));
  ASSERT_THAT(answers_.Await(4), SizeIs(4));
  for (const auto& answer : answers_.Await(4)) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRecordDamaged);
  }
  EXPECT_EQ(Stored("held").attempt, 1u);
}

TEST(WaitRoomOptionsTest, TheDefaultsAreThoseThatAreDocumented) {
  const InFlightWaitersOptions options;
  EXPECT_EQ(options.max_waiters, limits::kMaxWaiters);
  EXPECT_EQ(options.first_pause, absl::Milliseconds(20));
  EXPECT_EQ(options.longest_pause, absl::Milliseconds(200));
  EXPECT_EQ(options.max_reads, limits::kMaxBatch);
  EXPECT_EQ(options.clock, &Clock::System());
}

// At first soon, since most attempts are short; then less and less often, up to a bound.
TEST_F(InFlightWaitersTest, TheReadsOfARecordComeFurtherAndFurtherApart) {
  Make(/*max_waiters=*/1000, /*threads=*/1);
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Hours(1);
  Hold(op);
  Start(op, limits::kMaxWait);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  // The only worker answers this once the waiters have the result of the read.
  const auto settle = [this] {
    Answers<absl::Status> behind;
    batcher_->Release(ReleaseNamed("nobody's", Uuid::Random()), kNoDeadline, behind.Sink());
    EXPECT_THAT(behind.Await(1), SizeIs(1));
  };
  // The first one exactly, the others with a deviation of at most a fifth.
  clock_.Advance(absl::Milliseconds(20) - absl::Microseconds(1));
  ExpectNoFurtherCall(store_.calls().size());
  clock_.Advance(absl::Microseconds(1));
  std::size_t reads = 1;
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, reads));
  for (const int pause : {20, 40, 80, 160, 200, 200, 200}) {
    settle();
    const std::size_t calls = store_.calls().size();
    clock_.Advance(absl::Milliseconds(pause) * 0.8 - absl::Microseconds(1));
    ExpectNoFurtherCall(calls);
    clock_.Advance(absl::Milliseconds(pause) * 0.4 + absl::Microseconds(1));
    ++reads;
    ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, reads)) << "after " << pause << " ms";
  }
  EXPECT_EQ(store_.CallsOf(OperationKind::kGet), reads);
  EXPECT_EQ(answers_.size(), 0u);
}

// Independent of the timer's earlier due time.
TEST_F(InFlightWaitersTest, ANewRecordThatIsDueSoonerIsLookedAtInItsTime) {
  // Only leases and limits count.
  ReadNothingPeriodically();
  Make();
  ReserveOp late = ReserveNamed("late");
  late.lease = absl::Hours(1);
  Hold(late);
  Start(late, absl::Seconds(50));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  ReserveOp soon = ReserveNamed("soon");
  soon.lease = absl::Milliseconds(50);
  Hold(soon);
  Start(soon, limits::kMaxWait);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  store_clock_.Advance(soon.lease);
  clock_.Advance(soon.lease);
  EXPECT_EQ(Count<Reserved>(1), 1u);
}

TEST_F(InFlightWaitersTest, WhileARecordIsReadItIsNotReadAgain) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 2);
  store_.ShutAnswers(OperationKind::kGet);
  clock_.Advance(absl::Milliseconds(20));
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, 1));
  // Reported as changed meanwhile, and time passes.
  CompleteHere("held", token);
  clock_.Advance(absl::Seconds(1));
  ExpectNoFurtherCall(store_.calls().size());
  store_.OpenAnswers();
  EXPECT_EQ(Count<Replay>(2), 2u);
  room_->Close();
  batcher_->Close();
  EXPECT_EQ(store_.CallsOf(OperationKind::kGet), 2u);
}

// Its result is conclusive and is confirmed: that read sees the move too.
TEST_F(InFlightWaitersTest, AMoveDuringAReadThatIsConfirmedNextNeedsNoReadOfItsOwn) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 2);
  CompleteElsewhere("held", token);
  store_.ShutAnswers(OperationKind::kGet);
  clock_.Advance(absl::Milliseconds(20));
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, 1));
  room_->OnRecordChanged(IdNamed("held"));
  store_.OpenAnswers();
  EXPECT_EQ(Count<Replay>(2), 2u);
  room_->Close();
  batcher_->Close();
  EXPECT_EQ(store_.CallsOf(OperationKind::kGet), 2u) << "one that looks, one that is confirmed";
}

TEST_F(InFlightWaitersTest, AMoveDuringAReadAfterWhichOneTriesNeedsNoReadEither) {
  Make();
  const Uuid token = Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 2);
  ASSERT_TRUE(memory_.Release({ReleaseNamed("held", token)})[0].ok());
  store_.ShutAnswers(OperationKind::kGet);
  clock_.Advance(absl::Milliseconds(20));
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, 1));
  room_->OnRecordChanged(IdNamed("held"));
  store_.OpenAnswers();
  EXPECT_EQ(Count<Reserved>(1), 1u);
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 1));
  room_->Close();
  batcher_->Close();
  EXPECT_EQ(store_.CallsOf(OperationKind::kGet), 1u);
}

TEST_F(InFlightWaitersTest, WhileOneTriesTheOthersNeitherTryNorRead) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  const Uuid token = Hold(op);
  StartWaiters(op, 3);
  store_.Shut();
  const std::size_t before = store_.calls().size();
  clock_.Advance(op.lease);
  ASSERT_TRUE(store_.AwaitCalls(before + 1));
  EXPECT_EQ(store_.calls().back().kind, OperationKind::kReserve);
  room_->OnRecordChanged(IdNamed("held"));
  clock_.Advance(absl::Seconds(1));
  ExpectNoFurtherCall(before + 1);
  // Completed before the try reaches the store: the try gets the reply, then the others do.
  CompleteElsewhere("held", token);
  store_.Open();
  EXPECT_EQ(Count<Replay>(3), 3u);
}

TEST_F(InFlightWaitersTest, AMoveWhileOneTriesIsLookedAtOnceItIsAnswered) {
  ReadNothingPeriodically();
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  const Uuid token = Hold(op);
  StartWaiters(op, 3);
  // The answer names the running attempt, which ends before the answer arrives.
  store_.ShutAnswers();
  const std::size_t before = store_.calls().size();
  clock_.Advance(op.lease);
  ASSERT_TRUE(store_.AwaitDone(before + 1));
  CompleteHere("held", token);
  store_.Open();
  EXPECT_EQ(Count<Replay>(3), 3u);
  EXPECT_EQ(SentToStore(OperationKind::kReserve), 4u) << "of the three one sent again";
}

TEST_F(InFlightWaitersTest, WhatATryFindsSettledReachesTheOthersByOneRead) {
  ReadNothingPeriodically();
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  const Uuid token = Hold(op);
  StartWaiters(op, 8);
  CompleteElsewhere("held", token);
  clock_.Advance(op.lease);
  EXPECT_EQ(Count<Replay>(8), 8u);
  EXPECT_EQ(SentToStore(OperationKind::kReserve), 9u) << "of the eight one sent again";
}

TEST_F(InFlightWaitersTest, WhileTheStoreCannotAnswerOneTriesInAPause) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  Hold(op);
  StartWaiters(op, 3);
  store_.Fail(OperationKind::kReserve, Reason::kStoreUnavailable);
  const std::size_t before = store_.calls().size();
  store_clock_.Advance(op.lease);
  clock_.Advance(op.lease);
  ASSERT_THAT(answers_.Await(1), SizeIs(1));
  EXPECT_EQ(ReasonOf(answers_.Await(1)[0].status()), Reason::kStoreUnavailable);
  ExpectNoFurtherCall(before + 1);
  EXPECT_EQ(observer_.counts().waiters, 2u);
  store_.Fail(OperationKind::kReserve, std::nullopt);
  clock_.Advance(absl::Milliseconds(250));
  EXPECT_EQ(Count<Reserved>(2), 1u);
}

TEST_F(InFlightWaitersTest, ARecordThatCannotBeReadIsReadOnceInAPause) {
  Make();
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 2);
  store_.Fail(OperationKind::kGet, Reason::kStoreUnavailable);
  const std::size_t before = store_.calls().size();
  clock_.Advance(absl::Milliseconds(20));
  ASSERT_TRUE(store_.AwaitCalls(before + 1));
  ExpectNoFurtherCall(before + 1);
}

TEST_F(InFlightWaitersTest, ADamagedRecordThatAPeriodicReadFindsIsReportedToo) {
  Make();
  Hold(ReserveNamed("held"));
  StartWaiters(ReserveNamed("held"), 4);
  store_.Fail(OperationKind::kGet, Reason::kRecordDamaged);
  clock_.Advance(absl::Milliseconds(20));
  for (const auto& answer : answers_.Await(4)) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRecordDamaged);
  }
  EXPECT_EQ(Stored("held").attempt, 1u);
}

TEST_F(InFlightWaitersTest, ARecordThatIsForgottenIsReservedByOneWhoWaits) {
  ReadNothingPeriodically();
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = op.retention = absl::Seconds(1);
  Hold(op);
  StartWaiters(op, 3);
  store_clock_.Advance(op.retention);
  room_->OnRecordChanged(IdNamed("held"));
  ASSERT_EQ(Count<Reserved>(1), 1u);
  EXPECT_TRUE(As<Reserved>(answers_.Await(1)[0])->after_expiry);
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 2));
}

// A caller that came later may have seen a later attempt.
TEST_F(InFlightWaitersTest, AReadAnswersOnlyWaitersFromBeforeItWasSent) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = op.retention = absl::Seconds(1);
  const Uuid token = Hold(op);
  StartWaiters(op, 1);
  store_.ShutAnswers(OperationKind::kGet);
  CompleteHere("held", token);
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, 1));
  // The record ends, and its key is used for another request.
  store_clock_.Advance(op.retention);
  const ReserveOp other = ReserveNamed("held", 'b');
  const Uuid its_token = Hold(other);
  Start(other);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  store_.OpenAnswers();
  ASSERT_THAT(answers_.Await(1), SizeIs(1));
  EXPECT_NE(As<Replay>(answers_.Await(1)[0]), nullptr);
  CompleteHere("held", its_token);
  EXPECT_EQ(Count<Replay>(2), 2u);
}

TEST_F(InFlightWaitersTest, ACompletedRecordThatLacksItsReplyIsLeftToTheStore) {
  Make();
  int reads = 0;
  store_.ChangeRecords([&reads](Record& record) {
    if (++reads % 2 == 0) {
      record.reply.reset();
    } else {
      record.completed_at.reset();
    }
  });
  for (const auto name : {"one", "two"}) {
    const Uuid token = Hold(ReserveNamed(name));
    Start(ReserveNamed(name));
    ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
    CompleteHere(name, token);
    ASSERT_TRUE(observer_.Await(&Counts::waiters, 0));
  }
  EXPECT_EQ(Count<Replay>(2), 2u);
  EXPECT_EQ(SentToStore(OperationKind::kReserve), 4u);
}

// It never reached the store, so the record is unchanged: the next one's turn.
TEST_F(InFlightWaitersTest, WhereTheOneThatWasToTryHasLeftAnotherTries) {
  ReadNothingPeriodically();
  Make();
  ReserveOp first = ReserveNamed("held");
  first.lease = first.retention = absl::Seconds(1);
  Hold(first);
  InFlightWaiters::WaiterPtr leaves;
  room_->Start(
      room_->NewWaiter(first, kNoDeadline, kLongWait,
                       [this, &leaves, sink = answers_.Sink()](absl::StatusOr<Verdict> answer) {
                         room_->Cancel(leaves);
                         sink(std::move(answer));
                       }));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  store_clock_.Advance(first.retention);
  const ReserveOp other = ReserveNamed("held", 'b');
  const Uuid token = Hold(other);
  leaves = Start(other);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  Start(other);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 3));
  // One read gives the first caller its mismatch, and lets one of the others try.
  ASSERT_TRUE(memory_.Release({ReleaseNamed("held", token)})[0].ok());
  room_->OnRecordChanged(IdNamed("held"));
  EXPECT_EQ(Count<Mismatch>(3), 1u);
  EXPECT_EQ(Count<Reserved>(3), 1u);
}

TEST_F(InFlightWaitersTest, AWaitEndsTwentyMillisecondsBeforeTheDeadlineOfTheCall) {
  Make();
  Hold(ReserveNamed("held"));
  Start(ReserveNamed("held"), kLongWait, clock_.Monotonic() + std::chrono::seconds(1));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  // The timer answers it in the same turn as the callers that waited too long.
  Start(ReserveNamed("held"), absl::Milliseconds(979));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  clock_.Advance(absl::Milliseconds(979));
  ASSERT_THAT(answers_.Await(1), SizeIs(1));
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 1));
  EXPECT_EQ(answers_.size(), 1u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Count<InFlight>(2), 2u);
}

TEST_F(InFlightWaitersTest, ALeaseThatIsAlmostOverIsTriedOnceInAMillisecond) {
  Make();
  ReserveOp op = ReserveNamed("held");
  op.lease = absl::Seconds(5);
  Hold(op);
  store_clock_.Advance(op.lease - absl::Microseconds(1));
  StartWaiters(op, 1);
  ExpectNoFurtherCall(1);
  clock_.Advance(absl::Milliseconds(1));
  ASSERT_TRUE(store_.AwaitCalls(2));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  ExpectNoFurtherCall(2);
  store_clock_.Advance(absl::Microseconds(1));
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Count<Reserved>(1), 1u);
}

// No part of it runs in a loop meanwhile.
TEST_F(InFlightWaitersTest, TheTimerSleepsAlsoWhileAReadThatIsDueHasNoPlace) {
  max_reads_ = 1;
  Make();
  Hold(ReserveNamed("one"));
  Hold(ReserveNamed("two"));
  Start(ReserveNamed("one"), limits::kMaxWait);
  Start(ReserveNamed("two"), limits::kMaxWait);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  store_.ShutAnswers(OperationKind::kGet);
  clock_.Advance(absl::Milliseconds(100));
  ASSERT_TRUE(store_.AwaitDone(OperationKind::kGet, 1));
  const int before = clock_reads_.load();
  ExpectNoFurtherCall(store_.calls().size());
  EXPECT_LT(clock_reads_.load() - before, 20);
}

TEST_F(InFlightWaitersTest, ACancelledCallerIsCounted) {
  Make();
  Hold(ReserveNamed("held"));
  EXPECT_EQ(room_->records(), 0u);
  const auto call = Start(ReserveNamed("held"));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  room_->Cancel(call);
  EXPECT_EQ(observer_.counts().callers_left, 1u);
}

// A caller that has left does not receive the answer.
TEST_F(InFlightWaitersTest, AGrantToOneWhoLeftAndThenStoppedWaitingIsGivenBack) {
  Make();
  store_.Shut();
  const auto call = Start(ReserveNamed("free"));
  ASSERT_TRUE(store_.AwaitCalls(1));
  room_->Cancel(call);
  room_->StopWaiting(call);
  store_.Open();
  ASSERT_THAT(answers_.Await(1), SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(answers_.Await(1)[0].status()));
  room_.reset();
  EXPECT_EQ(Stored("free").state, RecordState::kReleased);
}

TEST_F(InFlightWaitersTest, WhatIsGivenBackGoesToOneWhoWaitsAtOnce) {
  // One worker: operations that arrive while it is at the store are in its next batch.
  ReadNothingPeriodically();
  Make(/*max_waiters=*/1000, /*threads=*/1);
  store_.Shut();
  const auto leaves = Start(ReserveNamed("free"));
  ASSERT_TRUE(store_.AwaitCalls(1));
  Start(ReserveNamed("free"));
  room_->Cancel(leaves);
  store_.Open();
  EXPECT_EQ(Count<Reserved>(2), 1u);
  EXPECT_EQ(Stored("free").attempt, 2u);
}

// Many callers, few records, real time: no attempt is granted twice, and every
// call is answered once.
TEST_F(InFlightWaitersTest, GrantsAreExclusiveUnderConcurrentCallers) {
  constexpr int kCallers = 4;
  constexpr int kCalls = 200;
  batcher_ = std::make_unique<Batcher>(memory_, observer_, BatcherOptions{3});
  room_ = std::make_unique<InFlightWaiters>(*batcher_, observer_);
  Answers<std::pair<std::string, std::uint32_t>> grants;
  std::atomic<int> answered{0};
  const auto settle = [&](const std::string& name, const Reserved& grant) {
    grants.Add({name, grant.attempt});
    const auto changed = [this, id = IdNamed(name)](const auto&) { room_->OnRecordChanged(id); };
    if (grant.attempt < 5) {
      batcher_->Release(ReleaseNamed(name, grant.token), kNoDeadline, changed);
    } else {
      batcher_->Complete(CompleteNamed(name, grant.token), kNoDeadline, changed);
    }
  };
  const auto run = [&](int caller) {
    for (int i = 0; i < kCalls; ++i) {
      const std::string name = std::to_string(i / 10);
      const auto call = room_->NewWaiter(ReserveNamed(name), kNoDeadline, kLongWait,
                                         [&, name](absl::StatusOr<Verdict> answer) {
                                           ++answered;
                                           if (const auto* const grant = As<Reserved>(answer)) {
                                             settle(name, *grant);
                                           }
                                         });
      room_->Start(call);
      if ((i + caller) % 7 == 0) room_->Cancel(call);
    }
  };
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) callers.emplace_back(run, caller);
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 0));
  room_->Close();
  batcher_->Close();

  EXPECT_EQ(answered, kCallers * kCalls);
  auto all = grants.Await(0);
  EXPECT_GE(all.size(), 20u);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace idempotency::internal
