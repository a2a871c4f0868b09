// The use of a completion ledger's answers in Admission and Settlement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"

#include "client/testing/fake_connection.h"
#include "core/mutex.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/server/admission/admission.h"
#include "interceptors/server/execution/ledger_lookup.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/limits.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/testing/admitted.h"
#include "interceptors/server/testing/fake_ledger.h"
#include "interceptors/server/threads/places.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {
namespace {

using Operation = FakeConnection::Operation;

constexpr auto kLong = std::chrono::seconds(20);

absl::Status Away() { return absl::UnavailableError("away"); }

v1::Reply Answer(const std::string& body) {
  v1::Reply reply;
  reply.set_body(body);
  return reply;
}

v1::Reply Failure(grpc::StatusCode code) {
  v1::Reply reply;
  reply.set_code(static_cast<int>(code));
  return reply;
}

// A response message that serialises to 0a 04 `text`.
v1::RecordKey Message(const std::string& text) {
  v1::RecordKey message;
  message.set_namespace_(text);
  return message;
}

class GuardLedgerTest : public testing::Test {
 protected:
  explicit GuardLedgerTest(bool recovery = false, bool relaxed = false) {
    policy_.relaxed_reservation = relaxed;
    options_.name_space = "shop";
    options_.recording_timeout = absl::Milliseconds(300);
    options_.ledger = ledger_;
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    reservations_ = std::make_unique<ReservationClient>(
        std::move(connection), options_.recording_timeout, absl::Seconds(10));
    GuardedOperation operation{"/shop.v1.Shop/Buy",
                               policy_,
                               options_,
                               *reservations_,
                               pools_,
                               recovery ? UnknownOutcome::kRecover : UnknownOutcome::kLookUpLedger};
    operation.log = std::make_shared<GuardLog>([this](LogSeverity, std::string_view line) {
      MutexLock lock(mutex_);
      lines_.emplace_back(line);
    });
    operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  }
  ~GuardLedgerTest() override {
    ledger_->Hold(false);
    pools_.Stop();
  }

  Admission::Decision Admit(const std::string& digest = std::string(32, 'd')) {
    v1::ReserveRequest reserve_request;
    v1::RecordKey& key = *reserve_request.mutable_record_key();
    key.set_namespace_("shop");
    key.set_scope("alice");
    key.set_operation("/shop.v1.Shop/Buy");
    key.set_key("order-1");
    v1::Fingerprint& fingerprint = *reserve_request.add_fingerprints();
    fingerprint.set_version(1);
    fingerprint.set_digest(digest);
    std::promise<Admission::Decision> decided;
    Admission::Admit(operation_, std::make_shared<v1::ReserveRequest>(reserve_request),
                     reservations_->Now() + verdict_timeout_,
                     [&](Admission::Decision decision) { decided.set_value(std::move(decision)); });
    return decided.get_future().get();
  }
  std::shared_ptr<LiveExecution> Run() { return ExecutionOf(Admit()); }
  // The caller gets no answer while the store has not recorded the reply.
  void ExpectToWaitForTheStore(const std::shared_ptr<LiveExecution>& execution,
                               const std::string& text) {
    store_->Hold(Operation::kComplete);
    EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body(text))).error),
              Reason::kOutcomeNotRecorded);
    store_->AnswerHeld(Operation::kComplete);
  }
  // Of replies that are sent before the store has recorded them.
  std::vector<Places::Place> TakeAllPlaces() {
    std::vector<Places::Place> taken;
    while (Places::Place place = reservations_->replies_ahead().TryTake()) {
      taken.push_back(std::move(place));
    }
    return taken;
  }
  // Commits `text` as the reply, in a transaction of this execution.
  bool Commit(Execution& execution, const std::string& text) {
    FakeTransaction transaction{*ledger_, {}};
    return execution.RecordInTransaction(transaction, Message(text)).ok() && transaction.Commit();
  }
  // An execution that cannot commit in this transaction, with this line in the guard's log.
  void ExpectRefused(FakeTransaction& transaction, const char* line) {
    const auto execution = Run();
    EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
    EXPECT_THAT(Lines(), testing::ElementsAre(line));
    SettleWith(execution, Failure(grpc::StatusCode::INTERNAL));
  }
  // An execution that ended without an answer: its reservation has ended, with or without a
  // commit.
  void DieAfter(bool commit) {
    const auto execution = Run();
    ASSERT_NE(execution, nullptr);
    if (commit) {
      ASSERT_TRUE(Commit(*execution, "paid"));
    }
    Die(execution);
  }
  void Die(const std::shared_ptr<LiveExecution>& execution) {
    execution->reservation()->Release("died", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
    ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  }
  static std::optional<Reason> RefusalOf(const Admission::Decision& decision) {
    const auto* refused = std::get_if<Admission::Refused>(&decision);
    return refused == nullptr ? std::nullopt : ReasonOf(refused->why);
  }
  // The pause of the refused caller before its next call.
  static std::optional<absl::Duration> WaitOf(const Admission::Decision& decision) {
    const auto* refused = std::get_if<Admission::Refused>(&decision);
    return refused == nullptr ? std::nullopt : DetailsOf(refused->why).retry_delay;
  }
  std::vector<std::string> Lines() const {
    MutexLock lock(mutex_);
    return lines_;
  }
  static std::string Body(const std::string& text) { return Message(text).SerializeAsString(); }

  mutable Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<FakeLedger> ledger_ = std::make_shared<FakeLedger>();
  std::chrono::milliseconds verdict_timeout_ = kLong;
  GuardOptions options_;
  MethodPolicy policy_;
  FakeConnection* store_ = nullptr;
  WorkerPools pools_;
  std::unique_ptr<ReservationClient> reservations_;
  std::shared_ptr<const GuardedOperation> operation_;
};

class GuardLedgerRecoveryTest : public GuardLedgerTest {
 protected:
  GuardLedgerRecoveryTest() : GuardLedgerTest(/*recovery=*/true) {}
};

TEST_F(GuardLedgerTest, FirstAttemptsDoNotQuery) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  EXPECT_TRUE(SettleWith(execution, Answer("x")).error.ok());
  EXPECT_EQ(ledger_->finds(), 0);
}

TEST_F(GuardLedgerTest, WhatAnEarlierAttemptCommittedIsCompletedAndReplayed) {
  DieAfter(/*commit=*/true);
  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  EXPECT_EQ(replayed->reply.stored().body(), Body("paid"));
  EXPECT_EQ(replayed->reply.trailers().back().first, "idempotency-replayed");
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
  EXPECT_EQ(store_->record().reply.trailing_metadata_size(), 0);
}

TEST_F(GuardLedgerTest, MetadataAboutAnotherRecordIsNotReplayed) {
  const auto execution = Run();
  RecordedReply reply(Message("paid"));
  // As a handler does that forwards the trailers of another service.
  reply.AddTrailingMetadata("idempotency-record", "of another service");
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->RecordInTransaction(transaction, reply).ok() && transaction.Commit());
  Die(execution);
  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  const v1::Reply whole = replayed->reply.Whole();
  EXPECT_EQ(std::count_if(whole.trailing_metadata().begin(), whole.trailing_metadata().end(),
                          [](const auto& entry) { return entry.key() == "idempotency-record"; }),
            1);
}

// The store has lost the record of the attempt that committed.
TEST_F(GuardLedgerTest, ARefusalOfAFirstAttemptDoesNotContradictARow) {
  const auto before = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(before->Commit(transaction, Message("paid")).ok());
  store_->LoseRecord();
  EXPECT_TRUE(SettleWith(before, Answer(Body("paid"))).error.ok());
  const auto execution = Run();
  ASSERT_EQ(execution->attempt(), 1U);
  EXPECT_EQ(ReasonOf(SettleWith(execution, Failure(grpc::StatusCode::FAILED_PRECONDITION)).error),
            Reason::kReservationLost);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
}

TEST_F(GuardLedgerTest, WhatWasNotCommittedRunsAgain) {
  DieAfter(/*commit=*/false);
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  EXPECT_EQ(execution->attempt(), 2U);
  EXPECT_EQ(ledger_->finds(), 1);
  SettleWith(execution, Answer("x"));
}

TEST_F(GuardLedgerTest, AnAttemptAfterTheFirstDoesNotRunWhileTheLedgerIsAway) {
  DieAfter(/*commit=*/true);
  verdict_timeout_ = std::chrono::milliseconds(200);
  ledger_->Fail(Away(), 1000);
  const Admission::Decision decision = Admit();
  EXPECT_EQ(RefusalOf(decision), Reason::kStoreUnavailable);
  EXPECT_EQ(WaitOf(decision), absl::Seconds(1));
  EXPECT_GT(ledger_->finds(), 1);
  // Released, so that the next try finds it.
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_EQ(store_->record().release_reason, "the completion ledger did not answer");
  ledger_->Fail(Away(), 0);
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
}

TEST_F(GuardLedgerTest, ALookupThatHangsIsAbandonedInTime) {
  DieAfter(/*commit=*/true);
  verdict_timeout_ = std::chrono::milliseconds(100);
  ledger_->Hold(true);
  EXPECT_EQ(RefusalOf(Admit()), Reason::kStoreUnavailable);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
}

TEST_F(GuardLedgerTest, ARowOfAnotherRequestIsAMismatch) {
  DieAfter(/*commit=*/true);
  ledger_->row().fingerprints = EncodeFingerprints({{1, std::string(32, 'e')}});
  EXPECT_EQ(RefusalOf(Admit()), Reason::kKeyReused);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_EQ(store_->record().release_reason,
            "the completion ledger's row is no answer to this request: KEY_REUSED");
}

// Written by a program with another fingerprint version: the requests cannot be compared, so no
// caller gets its reply, and nothing runs.
TEST_F(GuardLedgerTest, ARowWithoutACommonFingerprintVersionIsNoReply) {
  DieAfter(/*commit=*/true);
  ledger_->row().fingerprints = EncodeFingerprints({{2, std::string(32, 'd')}});
  EXPECT_EQ(RefusalOf(Admit()), Reason::kFingerprintUnknown);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
}

TEST_F(GuardLedgerTest, OneCommonFingerprintVersionIsEnough) {
  DieAfter(/*commit=*/true);
  ledger_->row().fingerprints =
      EncodeFingerprints({{1, std::string(32, 'd')}, {2, std::string(32, 'e')}});
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
}

TEST_F(GuardLedgerTest, ARowOfAnotherOperationUnderTheSameIdIsACollision) {
  DieAfter(/*commit=*/true);
  ledger_->row().record_key.scope = "bob";
  EXPECT_EQ(RefusalOf(Admit()), Reason::kRecordIdCollision);
}

TEST_F(GuardLedgerTest, ADamagedRowNeverRunsAgain) {
  DieAfter(/*commit=*/true);
  ledger_->row().reply.bytes += "x";
  EXPECT_EQ(RefusalOf(Admit()), Reason::kRecordDamaged);
  EXPECT_EQ(RefusalOf(Admit()), Reason::kRecordDamaged);
}

TEST_F(GuardLedgerTest, AnOkThatWasCommittedIsCompleted) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  v1::Reply reply = Answer(Body("paid"));
  reply.add_trailing_metadata()->set_key("x");
  EXPECT_TRUE(SettleWith(execution, reply).error.ok());
  // The stored reply is the first caller's, with its metadata.
  EXPECT_EQ(store_->record().reply.SerializeAsString(), reply.SerializeAsString());
}

TEST_F(GuardLedgerTest, AFailureAfterTheCommitIsStillDone) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  const absl::Status error = SettleWith(execution, Failure(grpc::StatusCode::INTERNAL)).error;
  EXPECT_EQ(ReasonOf(error), Reason::kReservationLost);
  EXPECT_EQ(error.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(PushbackOf(error), "1");
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
}

TEST_F(GuardLedgerTest, NothingHappenedDoesNotReleaseWhatIsCommitted) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  execution->MarkNoEffect();
  SettleWith(execution, Failure(grpc::StatusCode::UNAVAILABLE));
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(GuardLedgerTest, AnAnswerOfOtherBytesIsNotSent) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("else"))).error), Reason::kReservationLost);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
}

TEST_F(GuardLedgerTest, ADeclineIsCommittedLikeAnyReply) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  const grpc::Status declined(grpc::StatusCode::FAILED_PRECONDITION, "no money", "details");
  ASSERT_TRUE(execution->RecordInTransaction(transaction, declined).ok());
  ASSERT_TRUE(transaction.Commit());
  v1::Reply reply = Failure(grpc::StatusCode::FAILED_PRECONDITION);
  reply.set_message("no money");
  reply.set_details("details");
  EXPECT_TRUE(SettleWith(execution, reply).error.ok());
  EXPECT_EQ(store_->record().reply.message(), "no money");
}

TEST_F(GuardLedgerTest, AnOkWithoutACommitIsNotRecorded) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->RecordInTransaction(transaction, Message("paid")).ok());
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("paid"))).error),
            Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
}

TEST_F(GuardLedgerTest, AFailureWithoutACommitIsSettledAsEver) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->RecordInTransaction(transaction, Message("paid")).ok());
  EXPECT_TRUE(SettleWith(execution, Failure(grpc::StatusCode::INVALID_ARGUMENT)).error.ok());
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(ledger_->finds(), 1);
}

// The expiry decides whether a stream's messages are held back: those of an attempt that may
// run again must not be sent.
TEST_F(GuardLedgerTest, OnlyARecordedReplyHasAnExpiry) {
  const auto recorded = SettleWith(Run(), Answer("x"));
  EXPECT_TRUE(recorded.error.ok());
  EXPECT_GT(recorded.expires_at, absl::UnixEpoch());
  EXPECT_LT(recorded.expires_at, absl::InfiniteFuture());
}

TEST_F(GuardLedgerTest, AReleasedAttemptHasNoExpiry) {
  const auto released = SettleWith(Run(), Failure(grpc::StatusCode::UNAVAILABLE));
  EXPECT_TRUE(released.error.ok());
  EXPECT_EQ(released.expires_at, absl::InfinitePast());
}

TEST_F(GuardLedgerTest, AnAttemptLeftToItsLeaseHasNoExpiry) {
  const auto left = SettleWith(Run(), Failure(grpc::StatusCode::DEADLINE_EXCEEDED));
  EXPECT_TRUE(left.error.ok());
  EXPECT_EQ(left.expires_at, absl::InfinitePast());
  EXPECT_EQ(store_->calls(Operation::kRelease), 0);
}

TEST_F(GuardLedgerTest, WhileTheLedgerIsAwayNothingIsSettled) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  ledger_->Fail(Away(), 1'000'000);
  EXPECT_EQ(ReasonOf(SettleWith(execution, Failure(grpc::StatusCode::INTERNAL)).error),
            Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->calls(Operation::kRelease), 0);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
  EXPECT_FALSE(execution->lost());
  // The ledger recovers, and the outcome is recorded without a new call.
  ledger_->Fail(Away(), 0);
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
}

TEST_F(GuardLedgerTest, AGuardThatStopsWhileTheLedgerIsAwayLeavesItToTheLease) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  ledger_->Fail(Away(), 1'000'000);
  SettleWith(execution, Answer(Body("paid")));
  pools_.Stop();
  const auto begun = std::chrono::steady_clock::now();
  reservations_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

// Each lookup may take as long as the ledger's timeout.
TEST_F(GuardLedgerTest, LookupsWhoseCallersHaveLeftDoNotQuery) {
  const int threads = GuardThreads().ledger;
  ledger_->Hold(true);
  std::atomic<int> left{0};
  std::promise<void> all_left;
  const auto look_up = [&](Scheduler::Time deadline, LedgerLookup::Done done) {
    LedgerLookup::Run(operation_, std::make_shared<v1::ReserveRequest>(), deadline,
                      std::move(done));
  };
  for (int i = 0; i < 2 * threads; ++i) {
    look_up(reservations_->Now() + std::chrono::milliseconds(300),
            [&](const LedgerLookup::Answer&) {
              if (++left == 2 * threads) all_left.set_value();
            });
  }
  ASSERT_TRUE(ledger_->WaitForFinds(threads));
  all_left.get_future().wait();
  ledger_->Hold(false);
  std::promise<void> answered;
  look_up(Scheduler::Time::max(), [&](const LedgerLookup::Answer&) { answered.set_value(); });
  answered.get_future().wait();
  pools_.Stop();
  EXPECT_EQ(ledger_->finds(), threads + 1);
}

TEST_F(GuardLedgerTest, LookupsThatWaitWhenTheGuardStopsDoNotQuery) {
  const int threads = GuardThreads().ledger;
  ledger_->Hold(true);
  std::atomic<int> unreachable{0};
  for (int i = 0; i < 4 * threads; ++i) {
    LedgerLookup::Run(operation_, std::make_shared<v1::ReserveRequest>(), Scheduler::Time::max(),
                      [&](const LedgerLookup::Answer& answer) {
                        if (ReasonOf(answer.status()) == Reason::kStoreUnavailable) ++unreachable;
                      });
  }
  ASSERT_TRUE(ledger_->WaitForFinds(threads));
  std::thread stopping([this] { pools_.Stop(); });
  while (pools_.ledger.Run([] {}) != WorkerPool::Outcome::kStopped) std::this_thread::yield();
  ledger_->Hold(false);
  stopping.join();
  EXPECT_EQ(ledger_->finds(), threads);
  EXPECT_EQ(unreachable, 3 * threads);
}

TEST_F(GuardLedgerTest, AnAttemptThatLostItsLeaseIsRefusedTheRow) {
  const auto execution = Run();
  const auto request = std::make_shared<const v1::ReserveRequest>(execution->reserve_request());
  Reservation::Grant over;
  over.request = request;
  over.lease = absl::Milliseconds(20);
  over.lease_deadline = reservations_->Now();
  const auto answer = std::make_shared<v1::ReserveResponse>();
  answer->mutable_reserved()->set_attempt(1);
  over.answer = answer;
  store_->Hold(Operation::kExtend);
  LiveExecution late(operation_, reservations_->Hold(std::move(over)));
  FakeTransaction transaction{*ledger_, {}};
  EXPECT_EQ(
      ReasonOf(static_cast<Execution&>(late).RecordInTransaction(transaction, Message("paid"))),
      Reason::kReservationLost);
  EXPECT_FALSE(transaction.row.has_value());
  late.reservation()->LetLapse();
  SettleWith(execution, Answer("x"));
}

using Ending = FakeTransaction::Ending;

TEST_F(GuardLedgerTest, AnAcknowledgedCommitIsNotLookedUp) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  // Independent of the ledger's answer.
  ledger_->Fail(Away(), 1'000'000);
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  v1::Reply reply = Answer(Body("paid"));
  reply.add_trailing_metadata()->set_key("x");
  EXPECT_TRUE(SettleWith(execution, reply).error.ok());
  EXPECT_EQ(ledger_->finds(), 0);
  EXPECT_EQ(store_->record().reply.SerializeAsString(), reply.SerializeAsString());
}

TEST_F(GuardLedgerTest, AfterAnAcknowledgedCommitItsReplyIsTheOutcomeForAnyStatusOfTheHandler) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  execution->MarkNoEffect();
  EXPECT_EQ(ReasonOf(SettleWith(execution, Failure(grpc::StatusCode::UNAVAILABLE)).error),
            Reason::kReservationLost);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
  EXPECT_EQ(ledger_->finds(), 0);
}

TEST_F(GuardLedgerTest, AfterAnAcknowledgedCommitTheReplyDoesNotWaitForTheStore) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  store_->HoldAnswers(Operation::kComplete);
  const Settlement::Outcome outcome = SettleWith(execution, Answer(Body("paid")));
  EXPECT_TRUE(outcome.error.ok()) << outcome.error;
  EXPECT_GT(outcome.expires_at, absl::InfinitePast());
  store_->AnswerHeld(Operation::kComplete);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
}

TEST_F(GuardLedgerTest, ACommittedReplyIsRecordedWhenTheStoreIsBack) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  store_->Fail(Operation::kComplete, Away(), 3);
  EXPECT_TRUE(SettleWith(execution, Answer(Body("paid"))).error.ok());
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
}

// Nothing has shown yet that the transaction of RecordInTransaction is committed.
TEST_F(GuardLedgerTest, ALookedUpReplyWaitsForTheStore) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  ExpectToWaitForTheStore(execution, "paid");
}

TEST_F(GuardLedgerTest, ACommittedReplyThatIsLargeWaitsForTheStore) {
  const auto execution = Run();
  const std::string large(limits::kMaxReplyAheadBytes, 'x');
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(transaction, Message(large)).ok());
  ExpectToWaitForTheStore(execution, large);
}

TEST_F(GuardLedgerTest, OverTheBoundCommittedRepliesWaitForTheStore) {
  const std::vector<Places::Place> taken = TakeAllPlaces();
  EXPECT_EQ(taken.size(), limits::kMaxRepliesAhead);
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  ExpectToWaitForTheStore(execution, "paid");
}

// In an outage each of them is recorded for longer than recording_timeout.
TEST_F(GuardLedgerTest, ACommittedReplyHasItsPlaceUntilItIsRecorded) {
  std::vector<Places::Place> taken = TakeAllPlaces();
  taken.pop_back();
  std::promise<absl::Status> timed_out;
  options_.hooks.on_recorded = [&](const RecordedEvent& event) {
    timed_out.set_value(event.outcome);
  };
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  store_->Hold(Operation::kComplete);
  EXPECT_TRUE(SettleWith(execution, Answer(Body("paid"))).error.ok());
  EXPECT_EQ(ReasonOf(timed_out.get_future().get()), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(reservations_->replies_ahead().TryTake(), nullptr);
  store_->AnswerHeld(Operation::kComplete);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  // Free soon after its answer, which arrives on another thread.
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (reservations_->replies_ahead().TryTake() == nullptr) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
}

TEST_F(GuardLedgerTest, ACommitWhoseAnswerWasLostIsFoundInTheLedger) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}, Ending::kAnswerLost};
  const absl::Status doubt = execution->Commit(transaction, Message("paid"));
  EXPECT_EQ(ReasonOf(doubt), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(ReasonOf(SettleWith(execution, Failure(grpc::StatusCode::UNAVAILABLE)).error),
            Reason::kReservationLost);
  EXPECT_EQ(ledger_->finds(), 1);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
}

TEST_F(GuardLedgerTest, ARowThatCannotBeWrittenIsLoggedWhereTheGuardLogs) {
  FakeTransaction transaction{*ledger_, {}};
  transaction.refuses_row = true;
  ExpectRefused(transaction, "ledger: no row");
}

TEST_F(GuardLedgerTest, ACommitThatFailsIsLoggedWhereTheGuardLogs) {
  FakeTransaction transaction{*ledger_, {}, Ending::kRefused};
  ExpectRefused(transaction, "ledger: no commit");
}

// The attempt that holds the reservation now queries the ledger itself.
TEST_F(GuardLedgerTest, AnAttemptThatLostItsLeaseDoesNotWaitForALedgerThatIsAway) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}, Ending::kAnswerLost};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  ledger_->Fail(Away(), 1'000'000);
  store_->TakeOver();
  EXPECT_EQ(ReasonOf(execution->Checkpoint("paid")), Reason::kReservationLost);
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("paid"))).error), Reason::kReservationLost);
  EXPECT_EQ(ledger_->finds(), 1);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
}

TEST_F(GuardLedgerTest, AfterARowThatIsNoAnswerTheOutcomeIsLeftToAnotherAttempt) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}, Ending::kAnswerLost};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  ledger_->row().record_key.key = "order-2";
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("paid"))).error),
            Reason::kRecordIdCollision);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_GT(store_->record().release_pause, absl::ZeroDuration());
}

TEST_F(GuardLedgerTest, ALostCommitIsNoOutcomeEvenIfTheHandlerReturnsOk) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}, Ending::kCommitLost};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("paid"))).error),
            Reason::kOutcomeNotRecorded);
  EXPECT_EQ(ledger_->finds(), 1);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
}

// The ledger's answer waits until the standby has the row.
// It may still be committed.
TEST_F(GuardLedgerTest, ARefusalAfterACommitInDoubtIsNotRecorded) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  ASSERT_TRUE(execution->certainly_first());
  FakeTransaction transaction{*ledger_, {}, FakeTransaction::Ending::kCommitLost};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  const auto settled = SettleWith(execution, Failure(grpc::StatusCode::FAILED_PRECONDITION));
  EXPECT_EQ(ReasonOf(settled.error), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_->record().release_pause, kFirstReleasePause);

  ASSERT_TRUE(transaction.Commit());
  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  EXPECT_EQ(replayed->reply.stored().body(), Body("paid"));
}

TEST_F(GuardLedgerTest, NothingHappenedIsNotBelievedWhileACommitIsInDoubt) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->RecordInTransaction(transaction, Message("paid")).ok());
  execution->MarkCommitInDoubt();
  execution->MarkNoEffect();
  EXPECT_EQ(ReasonOf(SettleWith(execution, Failure(grpc::StatusCode::UNAVAILABLE)).error),
            Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(store_->record().release_pause, kFirstReleasePause);
}

TEST_F(GuardLedgerTest, ARefusalAfterACommitThatTheDatabaseRefusedIsRecorded) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  FakeTransaction transaction{*ledger_, {}, FakeTransaction::Ending::kRefused};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  EXPECT_TRUE(SettleWith(execution, Failure(grpc::StatusCode::FAILED_PRECONDITION)).error.ok());
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(GuardLedgerTest, ACommitThatNoStandbyConfirmedIsLookedUp) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}, Ending::kUnconfirmed};
  ASSERT_TRUE(execution->Commit(transaction, Message("paid")).ok());
  EXPECT_TRUE(SettleWith(execution, Answer(Body("paid"))).error.ok());
  EXPECT_EQ(ledger_->finds(), 1);
}

TEST_F(GuardLedgerTest, ACommitThatTheDatabaseRefusedMayBeRepeated) {
  const auto execution = Run();
  FakeTransaction refused{*ledger_, {}, Ending::kRefused};
  EXPECT_EQ(ReasonOf(execution->Commit(refused, Message("paid"))), Reason::kStoreUnavailable);
  FakeTransaction repeated{*ledger_, {}};
  ASSERT_TRUE(execution->Commit(repeated, Message("paid")).ok());
  EXPECT_TRUE(SettleWith(execution, Answer(Body("paid"))).error.ok());
  EXPECT_EQ(ledger_->finds(), 0);
}

// The INSERT waits for other attempts' transactions: the lease may end meanwhile.
TEST_F(GuardLedgerTest, NothingIsCommittedUnderALeaseThatEndedAfterTheRow) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  transaction.before_commit = [&] {
    store_->TakeOver();
    EXPECT_EQ(ReasonOf(execution->Checkpoint("too late")), Reason::kReservationLost);
  };
  EXPECT_EQ(ReasonOf(execution->Commit(transaction, Message("paid"))), Reason::kReservationLost);
  EXPECT_FALSE(transaction.row.has_value());
  SettleWith(execution, Failure(grpc::StatusCode::ABORTED));
}

// Recovery handlers, loaders and the ledger have threads of their own.
TEST_F(GuardLedgerTest, SlowRecoveryAndLoadersDelayNoLedgerLookup) {
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  for (int i = 0; i < GuardThreads().recovery; ++i) {
    ASSERT_EQ(pools_.recovery.Run([opened] { opened.wait(); }), WorkerPool::Outcome::kTaken);
  }
  for (int i = 0; i < GuardThreads().loaders; ++i) {
    ASSERT_EQ(pools_.loaders.Run([opened] { opened.wait(); }), WorkerPool::Outcome::kTaken);
  }
  options_.recording_timeout = absl::Seconds(30);
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  EXPECT_TRUE(SettleWith(execution, Answer(Body("paid"))).error.ok());
  EXPECT_EQ(ledger_->finds(), 1);
  open.set_value();
}

class GuardLedgerCrowdTest : public GuardLedgerTest {
 protected:
  // No place for a lookup until Open().
  void Crowd() {
    ledger_->Hold(true);
    for (int i = 0; i < GuardThreads().ledger; ++i) {
      pools_.ledger.Run([this] { (void)ledger_->Find(RecordId()); });
    }
    ASSERT_TRUE(ledger_->WaitForFinds(GuardThreads().ledger));
    while (pools_.ledger.Run([] {}) == WorkerPool::Outcome::kTaken) {
    }
  }
  void Open() { ledger_->Hold(false); }
};

TEST_F(GuardLedgerCrowdTest, AnAttemptAfterTheFirstIsRefusedAtOnce) {
  DieAfter(/*commit=*/true);
  Crowd();
  const Admission::Decision decision = Admit();
  EXPECT_EQ(RefusalOf(decision), Reason::kStoreUnavailable);
  EXPECT_THAT(std::string(std::get<Admission::Refused>(decision).why.message()),
              testing::HasSubstr("too many queries"));
  EXPECT_EQ(WaitOf(decision), absl::Seconds(1));
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  Open();
}

TEST_F(GuardLedgerCrowdTest, AnAnsweredExecutionIsLookedUpLater) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  Crowd();
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("paid"))).error),
            Reason::kOutcomeNotRecorded);
  Open();
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
}

TEST_F(GuardLedgerTest, TheSecondOfTwoCommitsFailsAndItsCallerIsSentForTheFirst) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  EXPECT_FALSE(Commit(*execution, "paid again"));
  EXPECT_EQ(ReasonOf(SettleWith(execution, Answer(Body("paid again"))).error),
            Reason::kReservationLost);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
}

// A reservation that a crash of the store may lose.
class RelaxedLedgerTest : public GuardLedgerTest {
 protected:
  RelaxedLedgerTest() : GuardLedgerTest(/*recovery=*/false, /*relaxed=*/true) {}
};

TEST_F(RelaxedLedgerTest, OfTwoFirstAttemptsOneCommitsAndBothCallersGetItsReply) {
  const auto lost = Run();
  store_->LoseRecord();
  const auto second = Run();
  ASSERT_NE(second, nullptr) << "the key is free";
  EXPECT_EQ(second->attempt(), lost->attempt());
  EXPECT_NE(second->reserved().reservation_token(), lost->reserved().reservation_token());

  FakeTransaction of_lost{*ledger_, {}};
  ASSERT_TRUE(lost->Commit(of_lost, Message("paid")).ok()) << "it cannot know";
  EXPECT_TRUE(SettleWith(lost, Answer(Body("paid"))).error.ok()) << "the commit is the outcome";
  FakeTransaction of_second{*ledger_, {}};
  EXPECT_FALSE(second->Commit(of_second, Message("paid twice")).ok());
  EXPECT_EQ(ReasonOf(SettleWith(second, Failure(grpc::StatusCode::ABORTED)).error),
            Reason::kReservationLost);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
}

TEST_F(RelaxedLedgerTest, ARetryAfterTheCommitAndTheLossGetsTheFirstReply) {
  const auto lost = Run();
  FakeTransaction of_lost{*ledger_, {}};
  ASSERT_TRUE(lost->Commit(of_lost, Message("paid")).ok());
  store_->LoseRecord();
  EXPECT_TRUE(SettleWith(lost, Answer(Body("paid"))).error.ok());
  // The handler finds its own effect and declines without the ledger: no outcome.
  const auto retry = Run();
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(retry->attempt(), 1u);
  EXPECT_EQ(ReasonOf(SettleWith(retry, Failure(grpc::StatusCode::ALREADY_EXISTS)).error),
            Reason::kReservationLost);
  EXPECT_EQ(store_->record().reply.body(), Body("paid"));
}

TEST_F(RelaxedLedgerTest, AnotherRequestAfterTheLossCommitsNothingAndIsRefused) {
  const auto lost = Run();
  FakeTransaction of_lost{*ledger_, {}};
  ASSERT_TRUE(lost->Commit(of_lost, Message("paid")).ok());
  store_->LoseRecord();
  Admission::Decision other = Admit(std::string(32, 'e'));
  const auto* granted = std::get_if<Admission::Granted>(&other);
  ASSERT_NE(granted, nullptr) << "only the ledger has the first request";
  FakeTransaction of_other{*ledger_, {}};
  EXPECT_FALSE(granted->execution->Commit(of_other, Message("other")).ok());
  EXPECT_EQ(ReasonOf(SettleWith(granted->execution, Failure(grpc::StatusCode::ABORTED)).error),
            Reason::kKeyReused);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0) << "the first reply is not for this request";
  EXPECT_EQ(RefusalOf(Admit(std::string(32, 'e'))), Reason::kKeyReused) << "nor for its retry";
}

TEST_F(RelaxedLedgerTest, TheTokenOfALostReservationWritesNothing) {
  const auto lost = Run();
  store_->LoseRecord();
  EXPECT_EQ(ReasonOf(lost->Checkpoint("half")), Reason::kReservationLost);
  EXPECT_TRUE(lost->lost());
  FakeTransaction transaction{*ledger_, {}};
  EXPECT_EQ(ReasonOf(lost->Commit(transaction, Message("paid"))), Reason::kReservationLost);
  const absl::Status error = SettleWith(lost, Failure(grpc::StatusCode::ABORTED)).error;
  EXPECT_EQ(ReasonOf(error), Reason::kReservationLost);
  EXPECT_TRUE(DetailsOf(error).retry_delay.has_value()) << "the ledger refuses a second effect";
}

TEST_F(RelaxedLedgerTest, ACompletionWithTheTokenOfALostReservationIsRefused) {
  const auto lost = Run();
  store_->LoseRecord();
  const auto other = Run();
  ASSERT_NE(other, nullptr);
  ASSERT_TRUE(Commit(*lost, "paid"));
  EXPECT_EQ(ReasonOf(SettleWith(lost, Answer(Body("paid"))).error), Reason::kReservationLost);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RESERVED) << "the other attempt's";
  other->reservation()->LetLapse();
}

// The keys of a lost attempt's calls would be others: each attempt would make a call of its own.
TEST_F(RelaxedLedgerTest, AFirstAttemptMakesNoDownstreamCalls) {
  const auto first = Run();
  EXPECT_EQ(ReasonOf(first->DownstreamKey("mail").status()), Reason::kDownstreamRefused);
  grpc::ClientContext context;
  EXPECT_EQ(ReasonOf(first->Attach(context, "mail")), Reason::kDownstreamRefused);
  first->reservation()->Release("gone", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  const auto second = Run();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(second->DownstreamKey("mail").ok() ||
              absl::StrContains(second->DownstreamKey("mail").status().message(), "newer"))
      << "its record is durable";
  second->reservation()->LetLapse();
}

TEST_F(RelaxedLedgerTest, ARefusalThatIsNotInTheLedgerIsNotRecorded) {
  const auto execution = Run();
  EXPECT_EQ(ReasonOf(SettleWith(execution, Failure(grpc::StatusCode::INVALID_ARGUMENT)).error),
            Reason::kOutcomeNotRecorded);
  EXPECT_EQ(ledger_->finds(), 1);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
}

TEST_F(RelaxedLedgerTest, AFailureThatIsNotRecordedIsNotLookedUp) {
  EXPECT_TRUE(SettleWith(Run(), Failure(grpc::StatusCode::UNAVAILABLE)).error.ok());
  EXPECT_EQ(ledger_->finds(), 0);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
}

TEST_F(RelaxedLedgerTest, AnOkThatIsNotInTheLedgerIsNotRecorded) {
  EXPECT_EQ(ReasonOf(SettleWith(Run(), Answer(Body("paid"))).error), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_THAT(Lines(), testing::Contains(testing::HasSubstr("Call Commit for every outcome")));
}

TEST_F(RelaxedLedgerTest, OnlyADurableFirstAttemptIsCertainlyTheFirst) {
  const auto relaxed = Run();
  EXPECT_TRUE(store_->last_reserve().relaxed());
  EXPECT_EQ(relaxed->attempt(), 1u);
  EXPECT_FALSE(relaxed->certainly_first());
  relaxed->reservation()->LetLapse();
}

TEST_F(GuardLedgerTest, OnlyTheFirstAttemptIsCertainlyTheFirst) {
  const auto first = Run();
  EXPECT_FALSE(store_->last_reserve().relaxed());
  EXPECT_TRUE(first->certainly_first());
  first->reservation()->Release("gone", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  const auto second = Run();
  EXPECT_FALSE(second->certainly_first());
  second->reservation()->LetLapse();
}

TEST_F(GuardLedgerTest, RowsOutliveTheirRecordTwice) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  const absl::Duration record_life =
      execution->expires_at() - FromWire(execution->reserved().created_at());
  ASSERT_GT(record_life, policy_.retention);
  EXPECT_EQ(ledger_->row().life, 2 * record_life);
  SettleWith(execution, Answer(Body("paid")));
}

TEST_F(GuardLedgerTest, AStreamIsCommittedMessageByMessage) {
  GuardedOperation operation = *operation_;
  operation.policy.stream = MethodPolicy::Stream::kHoldBack;
  operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  EXPECT_EQ(execution->RecordInTransaction(transaction, Message("unary")).code(),
            absl::StatusCode::kInvalidArgument);
  RecordedReply stream(grpc::Status::OK);
  stream.AddStreamMessage(Message("one")).AddStreamMessage(Message("two"));
  ASSERT_TRUE(execution->RecordInTransaction(transaction, stream).ok());
  ASSERT_TRUE(transaction.Commit());
  v1::Reply sent;
  sent.add_stream(Body("one"));
  sent.add_stream(Body("two"));
  EXPECT_TRUE(SettleWith(execution, sent).error.ok());
  EXPECT_EQ(store_->record().reply.stream_size(), 2);
  sent.add_stream(Body("three"));
  EXPECT_FALSE(SameOutcome(sent, stream.reply()));
}

TEST_F(GuardLedgerTest, AStreamOfTheLedgerOverTheLimitIsStoredAsItsStatus) {
  GuardedOperation operation = *operation_;
  operation.policy.stream = MethodPolicy::Stream::kPassOn;
  operation.policy.stream_limit_bytes = 150;
  operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  FakeTransaction transaction{*ledger_, {}};
  RecordedReply stream(grpc::Status::OK);
  stream.AddStreamMessage(Message("one")).AddStreamMessage(Message("two"));
  ASSERT_TRUE(execution->RecordInTransaction(transaction, stream).ok());
  ASSERT_TRUE(transaction.Commit());
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  EXPECT_EQ(replayed->reply.stored().stream_size(), 2) << "the row has the whole stream";
  EXPECT_EQ(store_->record().reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(store_->record().reply.stream_size(), 0);
}

// An attempt that was only slow: it commits after another one has taken over.
class LateCommitTest : public GuardLedgerTest {
 protected:
  // The row of attempt 1, which its transaction commits later.
  void FirstAttemptStalls() {
    const auto first = Run();
    ASSERT_NE(first, nullptr);
    ASSERT_TRUE(first->RecordInTransaction(stalled_, Message("paid")).ok());
    first->reservation()->Release("lease over", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
    ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  }
  FakeTransaction stalled_{*ledger_, {}};
};

TEST_F(LateCommitTest, ARefusalOfTheNextAttemptIsNotRecordedInItsPlace) {
  FirstAttemptStalls();
  const auto second = Run();
  ASSERT_NE(second, nullptr);
  EXPECT_FALSE(second->certainly_first());
  EXPECT_EQ(ReasonOf(SettleWith(second, Failure(grpc::StatusCode::FAILED_PRECONDITION)).error),
            Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->calls(Operation::kComplete), 0);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_GT(store_->record().release_pause, absl::ZeroDuration());
  EXPECT_THAT(Lines(), testing::Contains(testing::HasSubstr("Call Commit for every outcome")));

  ASSERT_TRUE(stalled_.Commit());
  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  EXPECT_EQ(replayed->reply.stored().body(), Body("paid"));
}

TEST_F(LateCommitTest, ACommittedRefusalOfTheNextAttemptIsTheOutcome) {
  FirstAttemptStalls();
  const auto second = Run();
  ASSERT_NE(second, nullptr);
  FakeTransaction refusal{*ledger_, {}};
  const grpc::Status declined(grpc::StatusCode::FAILED_PRECONDITION, "no money");
  ASSERT_TRUE(second->Commit(refusal, declined).ok());
  v1::Reply reply = Failure(grpc::StatusCode::FAILED_PRECONDITION);
  reply.set_message("no money");
  EXPECT_TRUE(SettleWith(second, reply).error.ok());
  EXPECT_FALSE(stalled_.Commit()) << "the refusal has its row";
}

// Nothing shows that this method uses the ledger; if it does not, another answer would lead to a
// second effect.
TEST_F(LateCommitTest, AnOkOfTheNextAttemptWithoutARowIsRecorded) {
  FirstAttemptStalls();
  const auto second = Run();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(SettleWith(second, Answer(Body("paid"))).error.ok());
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_THAT(Lines(), testing::Contains(testing::HasSubstr("MethodPolicy::on_unknown_outcome")));
}

TEST_F(LateCommitTest, AFailureThatIsNotRecordedIsSettledAsEver) {
  FirstAttemptStalls();
  const auto second = Run();
  ASSERT_NE(second, nullptr);
  const int finds = ledger_->finds();
  EXPECT_TRUE(SettleWith(second, Failure(grpc::StatusCode::UNAVAILABLE)).error.ok());
  EXPECT_EQ(ledger_->finds(), finds);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_RELEASED);
}

TEST_F(LateCommitTest, ARefusalOfACertainFirstAttemptNeedsNoRow) {
  EXPECT_TRUE(SettleWith(Run(), Failure(grpc::StatusCode::FAILED_PRECONDITION)).error.ok());
  // The store may have lost the record of an attempt that committed.
  EXPECT_EQ(ledger_->finds(), 1);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

class GuardLedgerReferenceTest : public GuardLedgerTest {
 protected:
  GuardLedgerReferenceTest() {
    GuardedOperation operation = *operation_;
    operation.policy.reply = MethodPolicy::Reply::kReference;
    operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  }
  // The reference of the record; empty without one.
  v1::Reference Kept() const {
    v1::Reference reference;
    const v1::Reply reply = store_->record().reply;
    if (reply.content() == v1::REPLY_CONTENT_REFERENCE) reference.ParseFromString(reply.body());
    return reference;
  }
};

TEST_F(GuardLedgerReferenceTest, AnAttemptThatFindsTheRowKeepsItsReference) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  execution->SetReference("charge", "ch-1");
  RecordedReply paid(Message("paid"));
  paid.AddTrailingMetadata("a", "1");
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->RecordInTransaction(transaction, paid).ok());
  ASSERT_TRUE(transaction.Commit());
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));

  const Admission::Decision decision = Admit();
  const auto* replayed = std::get_if<Admission::Replayed>(&decision);
  ASSERT_NE(replayed, nullptr);
  EXPECT_EQ(replayed->reply.stored().body(), Body("paid"));
  EXPECT_EQ(replayed->reply.stored().trailing_metadata(0).key(), "a");
  const v1::Reply whole = replayed->reply.Whole();
  for (const v1::MetadataEntry& entry : whole.trailing_metadata()) {
    EXPECT_THAT(entry.key(), testing::Not(testing::HasSubstr("reference")));
  }
  EXPECT_EQ(store_->record().reply.content(), v1::REPLY_CONTENT_REFERENCE);
  EXPECT_EQ(Kept().type(), "charge");
  EXPECT_EQ(Kept().id(), "ch-1");
}

TEST_F(GuardLedgerReferenceTest, ACommitWhoseAnswerWasLostKeepsItsReference) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  execution->SetReference("charge", "ch-1");
  FakeTransaction transaction{*ledger_, {}, Ending::kAnswerLost};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  SettleWith(execution, Failure(grpc::StatusCode::UNAVAILABLE));
  EXPECT_EQ(Kept().id(), "ch-1");
}

// REPLY_REFERENCE keeps replies out of the store.
TEST_F(GuardLedgerReferenceTest, OfARowWithoutAReferenceTheStatusIsKept) {
  DieAfter(/*commit=*/true);
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
  EXPECT_EQ(store_->record().reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_THAT(Lines(), testing::Contains(testing::HasSubstr("before it commits")));
}

TEST_F(GuardLedgerTest, UnderOtherPoliciesARowHasNoReference) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  execution->SetReference("charge", "ch-1");
  ASSERT_TRUE(Commit(*execution, "paid"));
  EXPECT_EQ(DecodeReply(ledger_->row().reply)->trailing_metadata_size(), 0);
  SettleWith(execution, Answer(Body("paid")));
}

TEST_F(GuardLedgerTest, CodesThatProveNothingAreRefused) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  EXPECT_EQ(execution->RecordInTransaction(transaction, grpc::Status::OK).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(execution->RecordInTransaction(transaction, grpc::Status::CANCELLED).code(),
            absl::StatusCode::kInvalidArgument);
  SettleWith(execution, Answer("x"));
}

TEST_F(GuardLedgerRecoveryTest, AnUnknownOutcomeThatWasCommittedIsFound) {
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(GuardLedgerRecoveryTest, AnUnknownOutcomeThatIsNotThereStaysUnknown) {
  const auto execution = Run();
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  const std::string token = store_->record().reservation_token;
  EXPECT_EQ(RefusalOf(Admit()), Reason::kOutcomeUnknown);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
  EXPECT_EQ(ledger_->finds(), 1);
  // The method may not use the ledger, and the first attempt may only be slow: its token is still
  // valid.
  EXPECT_EQ(store_->record().reservation_token, token);
  EXPECT_EQ(store_->record().attempt, 1u);
}

TEST_F(GuardLedgerRecoveryTest, TheLedgerIsQueriedBeforeTheRecoveryHandler) {
  int recoveries = 0;
  GuardedOperation operation = *operation_;
  operation.recovery = [&](const RecoveryCase& recovery) {
    ++recoveries;
    // A recovery commits its result like any attempt.
    EXPECT_TRUE(Commit(*recovery.execution, "found out"));
    return RecoveryDecision::CompleteWith(Message("found out"));
  };
  operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  const auto execution = Run();
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  // No row: the handler decides, and the ledger is queried for its row.
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
  EXPECT_EQ(recoveries, 1);
  EXPECT_EQ(ledger_->finds(), 2);
  EXPECT_EQ(store_->record().reply.body(), Body("found out"));
}

TEST_F(GuardLedgerRecoveryTest, WhatIsCommittedIsNotRecovered) {
  int recoveries = 0;
  GuardedOperation operation = *operation_;
  operation.recovery = [&](const RecoveryCase&) {
    ++recoveries;
    return RecoveryDecision::Release();
  };
  operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  const auto execution = Run();
  ASSERT_TRUE(Commit(*execution, "paid"));
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  EXPECT_TRUE(std::holds_alternative<Admission::Replayed>(Admit()));
  EXPECT_EQ(recoveries, 0);
}

TEST_F(GuardLedgerRecoveryTest, AnUnknownOutcomeStaysUnknownWhileTheLedgerIsAway) {
  const auto execution = Run();
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  verdict_timeout_ = std::chrono::milliseconds(100);
  ledger_->Fail(Away(), 1000);
  EXPECT_EQ(RefusalOf(Admit()), Reason::kStoreUnavailable);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
}

// As many of one method as there are threads; the ledger still answers another method.
TEST_F(GuardLedgerRecoveryTest, ARecoveryThatFindsNoPlaceLeavesTheOutcomeUnknown) {
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  GuardedOperation operation = *operation_;
  operation.recovery = [](const RecoveryCase&) { return RecoveryDecision::Release(); };
  operation_ = std::make_shared<const GuardedOperation>(std::move(operation));
  const auto execution = Run();
  execution->reservation()->Release("died", v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN, [] {});
  ASSERT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  // First every thread is occupied, so that none makes room in the queue later.
  std::promise<void> all_held;
  std::atomic<int> held{0};
  for (int i = 0; i < GuardThreads().recovery; ++i) {
    pools_.recovery.Run([&] {
      if (++held == GuardThreads().recovery) all_held.set_value();
      opened.wait();
    });
  }
  EXPECT_EQ(all_held.get_future().wait_for(kLong), std::future_status::ready);
  while (pools_.recovery.Run([] {}) == WorkerPool::Outcome::kTaken) {
  }
  EXPECT_EQ(RefusalOf(Admit()), Reason::kOverloaded);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_UNKNOWN));
  open.set_value();
  pools_.Stop();
}

TEST_F(GuardLedgerRecoveryTest, ARefusalAfterACommitInDoubtIsUnknown) {
  const auto execution = Run();
  ASSERT_NE(execution, nullptr);
  FakeTransaction transaction{*ledger_, {}, FakeTransaction::Ending::kCommitLost};
  EXPECT_FALSE(execution->Commit(transaction, Message("paid")).ok());
  const auto settled = SettleWith(execution, Failure(grpc::StatusCode::FAILED_PRECONDITION));
  EXPECT_EQ(ReasonOf(settled.error), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(GuardLedgerRecoveryTest, AnOkWithoutACommitIsUnknown) {
  const auto execution = Run();
  FakeTransaction transaction{*ledger_, {}};
  ASSERT_TRUE(execution->RecordInTransaction(transaction, Message("paid")).ok());
  SettleWith(execution, Answer(Body("paid")));
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
}

}  // namespace
}  // namespace idempotency::internal
