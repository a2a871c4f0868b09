// The last check of the lease before a handler starts, on a clock that a test advances.
#include "interceptors/server/admission/admission.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/testing/fake_ledger.h"
#include "interceptors/server/testing/fake_scheduler.h"
#include "interceptors/server/testing/sample_reserve_request.h"

namespace idempotency::internal {
namespace {

using Operation = FakeConnection::Operation;

// By the clock of the guard, and by the clock of the test.
constexpr std::chrono::minutes kVerdictTimeout{10};
constexpr std::chrono::seconds kPatience{30};

class LeaseAtStartTest : public testing::Test {
 protected:
  LeaseAtStartTest() {
    auto scheduler = std::make_unique<FakeScheduler>();
    scheduler_ = scheduler.get();
    auto connection = std::make_unique<FakeConnection>(*scheduler);
    store_ = connection.get();
    reservations_ = std::make_unique<ReservationClient>(std::move(connection), absl::Seconds(20),
                                                        absl::ZeroDuration(), /*cache=*/nullptr,
                                                        std::move(scheduler));
    policy_.lease = absl::Seconds(10);
    options_.hooks.on_verdict = [this](const VerdictEvent&) { ++verdicts_; };
    reserve_request_ = SampleReserveRequest();
  }
  ~LeaseAtStartTest() override {
    ledger_->Hold(false);
    // The guard waits for running executions, by the clock that stands still.
    for (const auto& execution : granted_) execution->reservation()->LetLapse();
    reservations_->Close();
    pools_.Stop();
  }

  std::future<Admission::Decision> Admit(UnknownOutcome on_unknown) {
    GuardedOperation operation{"/till/Charge", policy_, options_,
                               *reservations_, pools_,  on_unknown};
    operation.recovery = recovery_;
    auto decided = std::make_shared<std::promise<Admission::Decision>>();
    Admission::Admit(
        std::make_shared<const GuardedOperation>(std::move(operation)),
        std::make_shared<v1::ReserveRequest>(reserve_request_),
        reservations_->Now() + kVerdictTimeout,
        [decided](Admission::Decision decision) { decided->set_value(std::move(decision)); });
    return decided->get_future();
  }
  // nullptr if it was refused.
  std::shared_ptr<LiveExecution> Granted(std::future<Admission::Decision> decision) {
    if (decision.wait_for(kPatience) != std::future_status::ready) return nullptr;
    const Admission::Decision decided = decision.get();
    const auto* granted = std::get_if<Admission::Granted>(&decided);
    if (granted == nullptr) return nullptr;
    granted_.push_back(granted->execution);
    return granted->execution;
  }
  void PassTheLease() { scheduler_->Advance(policy_.lease + absl::Seconds(1)); }

  FakeConnection* store_ = nullptr;
  FakeScheduler* scheduler_ = nullptr;
  std::unique_ptr<ReservationClient> reservations_;
  WorkerPools pools_;
  const std::shared_ptr<FakeLedger> ledger_ = std::make_shared<FakeLedger>();
  GuardOptions options_;
  MethodPolicy policy_;
  RecoveryHandler recovery_;
  v1::ReserveRequest reserve_request_;
  std::vector<std::shared_ptr<LiveExecution>> granted_;
  std::atomic<int> verdicts_{0};
};

class SlowLedgerTest : public LeaseAtStartTest {
 protected:
  // A second attempt, whose heartbeats do not arrive, waits for the ledger.
  std::future<Admission::Decision> AdmitWithASlowLedger() {
    options_.ledger = ledger_;
    const auto first = Granted(Admit(UnknownOutcome::kLookUpLedger));
    first->reservation()->Release("released", v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
    store_->Hold(Operation::kExtend);
    ledger_->Hold(true);
    auto decision = Admit(UnknownOutcome::kLookUpLedger);
    EXPECT_TRUE(ledger_->WaitForFinds(1));
    token_ = store_->last_reserve().request_token();
    return decision;
  }
  std::string token_;
};

TEST_F(SlowLedgerTest, AnswersInTime) {
  auto decision = AdmitWithASlowLedger();
  ledger_->Hold(false);
  ASSERT_NE(Granted(std::move(decision)), nullptr);
  EXPECT_EQ(store_->calls(Operation::kReserve), 2) << "nothing to request again";
}

TEST_F(SlowLedgerTest, AnswersAfterTheLease) {
  auto decision = AdmitWithASlowLedger();
  PassTheLease();
  ledger_->Hold(false);
  const auto execution = Granted(std::move(decision));
  ASSERT_NE(execution, nullptr);
  EXPECT_FALSE(execution->lost()) << "a handler starts under a lease that is over";
  EXPECT_EQ(execution->attempt(), 2u);
  EXPECT_EQ(store_->calls(Operation::kReserve), 3);
  EXPECT_EQ(store_->last_reserve().request_token(), token_) << "another reserve_request";
  EXPECT_EQ(ledger_->finds(), 1) << "no other attempt can have run meanwhile";
  EXPECT_EQ(verdicts_, 2) << "one for each call";
}

// The repeated request ends later than the clock counts.
TEST_F(SlowLedgerTest, AnswersAfterTheLeaseUnderAnEndlessVerdictTimeout) {
  options_.verdict_timeout = 300 * 365 * absl::Hours(24);
  auto decision = AdmitWithASlowLedger();
  PassTheLease();
  ledger_->Hold(false);
  EXPECT_NE(Granted(std::move(decision)), nullptr);
}

TEST_F(SlowLedgerTest, AnswersAfterAnotherAttemptTookOver) {
  auto decision = AdmitWithASlowLedger();
  PassTheLease();
  store_->TakeOver();
  ledger_->Hold(false);
  ASSERT_EQ(decision.wait_for(kPatience), std::future_status::ready);
  const Admission::Decision decided = decision.get();
  const auto* refused = std::get_if<Admission::Refused>(&decided);
  ASSERT_NE(refused, nullptr) << "two attempts run";
  EXPECT_EQ(ReasonOf(refused->why), Reason::kInFlight);
}

TEST_F(LeaseAtStartTest, ARecoveryHandlerThatTookLongerThanTheLease) {
  const auto dead = Granted(Admit(UnknownOutcome::kRecover));
  dead->reservation()->LetLapse();
  store_->LoseTrace();
  store_->Hold(Operation::kExtend);
  int recoveries = 0;
  recovery_ = [&](const RecoveryCase& recovery) {
    ++recoveries;
    PassTheLease();
    EXPECT_TRUE(recovery.execution->lost());
    return RecoveryDecision::Release();
  };
  const auto execution = Granted(Admit(UnknownOutcome::kRecover));
  ASSERT_NE(execution, nullptr);
  EXPECT_FALSE(execution->lost()) << "a handler starts under a lease that is over";
  EXPECT_EQ(execution->attempt(), 2u);
  EXPECT_EQ(recoveries, 1);
  EXPECT_EQ(store_->calls(Operation::kReserve), 3);
}

// Only for a call without a verdict: MethodPolicy::fail_open runs its handler then.
class NoVerdictTest : public SlowLedgerTest {
 protected:
  // The commit of an attempt that ended without an answer under REQUIRE_RECOVERY is found by a
  // lookup that takes nearly the whole time for the verdict.
  std::future<Admission::Decision> AdmitWithACommitThatIsFoundLate() {
    options_.ledger = ledger_;
    const auto dead = Granted(Admit(UnknownOutcome::kRecover));
    FakeTransaction transaction{*ledger_, {}};
    v1::RecordKey reply;
    EXPECT_TRUE(dead->RecordInTransaction(transaction, reply).ok() && transaction.Commit());
    dead->reservation()->LetLapse();
    store_->LoseTrace();
    ledger_->Hold(true);
    auto decision = Admit(UnknownOutcome::kRecover);
    EXPECT_TRUE(ledger_->WaitForFinds(1));
    scheduler_->Advance(absl::FromChrono(kVerdictTimeout) - absl::Seconds(1));
    store_->Hold(Operation::kReserve);
    ledger_->Hold(false);
    EXPECT_TRUE(store_->WaitForCalls(Operation::kReserve, 3));
    return decision;
  }
  // Passes the time until the request's deadline, which another thread sets.
  std::optional<Admission::Refused> Refusal(std::future<Admission::Decision> decision) {
    constexpr std::chrono::milliseconds kStep(10);
    int steps = static_cast<int>(kPatience / kStep);
    while (decision.wait_for(kStep) != std::future_status::ready) {
      if (--steps == 0) return std::nullopt;
      scheduler_->Advance(absl::Minutes(1));
    }
    const Admission::Decision decided = decision.get();
    const auto* refused = std::get_if<Admission::Refused>(&decided);
    return refused == nullptr ? std::nullopt : std::make_optional(*refused);
  }
};

TEST_F(NoVerdictTest, IsReportedIfNoAnswerArrived) {
  store_->Hold(Operation::kReserve);
  auto decision = Admit(UnknownOutcome::kRecover);
  const auto refused = Refusal(std::move(decision));
  ASSERT_TRUE(refused.has_value());
  EXPECT_TRUE(refused->no_verdict);
  store_->AnswerHeld(Operation::kReserve);
}

TEST_F(NoVerdictTest, IsNotReportedOnceTheLedgerHasShownTheCommit) {
  auto decision = AdmitWithACommitThatIsFoundLate();
  const auto refused = Refusal(std::move(decision));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(ReasonOf(refused->why), Reason::kStoreUnavailable);
  EXPECT_FALSE(refused->no_verdict) << "a committed operation runs again, unguarded";
  store_->AnswerHeld(Operation::kReserve);
}

TEST_F(NoVerdictTest, IsNotReportedAfterAGrantThatCouldNotBeUsed) {
  auto decision = AdmitWithASlowLedger();
  PassTheLease();
  store_->Hold(Operation::kReserve);
  ledger_->Hold(false);
  ASSERT_TRUE(store_->WaitForCalls(Operation::kReserve, 3));
  const auto refused = Refusal(std::move(decision));
  ASSERT_TRUE(refused.has_value());
  EXPECT_FALSE(refused->no_verdict);
  store_->AnswerHeld(Operation::kReserve);
}

class RequestedTermsTest : public LeaseAtStartTest {};

TEST_F(RequestedTermsTest, AreThoseOfThePolicy) {
  policy_.retention = absl::Hours(3);
  policy_.reply_retention = absl::Hours(2);
  policy_.tombstone = absl::Hours(5);
  ASSERT_NE(Granted(Admit(UnknownOutcome::kRunAgain)), nullptr);
  const v1::ReserveRequest sent = store_->last_reserve();
  EXPECT_EQ(sent.lease().seconds(), 10);
  EXPECT_EQ(sent.retention().seconds(), 3 * 3600);
  EXPECT_EQ(sent.reply_retention().seconds(), 2 * 3600);
  EXPECT_EQ(sent.tombstone().seconds(), 5 * 3600);
  EXPECT_EQ(sent.on_lease_expiry(), v1::LEASE_EXPIRY_TAKE_OVER);
  EXPECT_FALSE(sent.recover());
  EXPECT_FALSE(sent.relaxed());
}

TEST_F(RequestedTermsTest, HaveNoReplyRetentionAndNoTombstoneUnlessThePolicyHas) {
  ASSERT_NE(Granted(Admit(UnknownOutcome::kRecover)), nullptr);
  const v1::ReserveRequest sent = store_->last_reserve();
  EXPECT_FALSE(sent.has_reply_retention());
  EXPECT_FALSE(sent.has_tombstone());
  EXPECT_EQ(sent.on_lease_expiry(), v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
}

}  // namespace
}  // namespace idempotency::internal
