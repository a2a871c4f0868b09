#include "interceptors/server/policy/unknown_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "interceptors/server/testing/fake_ledger.h"

namespace idempotency::internal {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class UnknownOutcomeDescriptionTest : public testing::Test {
 protected:
  std::string Description(std::optional<UnknownOutcome> chosen) const {
    return DescribeUnknownOutcome(chosen, policy_, recovery_, options_);
  }
  void GiveLedger() { options_.ledger = std::make_shared<FakeLedger>(); }
  void GiveRecoveryHandler() {
    recovery_ = [](const RecoveryCase&) { return RecoveryDecision::LeaveUnknown(); };
  }

  MethodPolicy policy_;
  RecoveryHandler recovery_;
  GuardOptions options_;
};

class RelaxationTest : public UnknownOutcomeDescriptionTest {
 protected:
  RelaxationTest() { policy_.relaxed_reservation = true; }
  std::string Fault() const {
    return RelaxationFault(policy_, ChosenUnknownOutcome(policy_, recovery_, options_), options_);
  }
};

TEST_F(RelaxationTest, NeedsALedgerThatDecides) {
  EXPECT_THAT(Fault(), HasSubstr("Set GuardOptions::ledger, or remove relaxed_reservation"));
  GiveLedger();
  EXPECT_EQ(Fault(), "");
}

TEST_F(RelaxationTest, IsRefusedWhereAnotherChoiceDecides) {
  GiveLedger();
  const auto is_refused = [this] {
    return Fault().find("remove that choice") != std::string::npos;
  };
  for (const auto choice : {MethodPolicy::OnUnknownOutcome::kTakeOver,
                            MethodPolicy::OnUnknownOutcome::kRequireRecovery}) {
    policy_.on_unknown_outcome = choice;
    EXPECT_TRUE(is_refused());
    policy_.on_unknown_outcome.reset();
    options_.on_unknown_outcome = choice;
    EXPECT_TRUE(is_refused());
    options_.on_unknown_outcome.reset();
  }
  GiveRecoveryHandler();
  EXPECT_TRUE(is_refused());
  policy_.relaxed_reservation = false;
  EXPECT_EQ(Fault(), "");
}

TEST_F(UnknownOutcomeDescriptionTest, DescribesWhenItRunsAgain) {
  policy_.lease = absl::Seconds(7);
  EXPECT_EQ(Description(UnknownOutcome::kRunAgain),
            "after a crash it runs again when the lease is over (7s); after a failure that is not "
            "recorded it runs again after a pause (1s to 1m)");
}

TEST_F(UnknownOutcomeDescriptionTest, DescribesThatTheLedgerComesFirst) {
  GiveLedger();
  for (const auto chosen : {UnknownOutcome::kRunAgain, UnknownOutcome::kLookUpLedger}) {
    EXPECT_THAT(Description(chosen), StartsWith("after a crash an operation without a ledger row "
                                                "runs again when the lease is over (30s)"));
  }
  EXPECT_THAT(Description(UnknownOutcome::kRecover), EndsWith(", unless the ledger has its reply"));
}

TEST_F(UnknownOutcomeDescriptionTest, DescribesTheRecovery) {
  EXPECT_THAT(Description(UnknownOutcome::kRecover),
              AllOf(HasSubstr("OUTCOME_UNKNOWN until it is settled"), Not(HasSubstr("handler")),
                    Not(HasSubstr("ledger"))));
  GiveRecoveryHandler();
  EXPECT_THAT(Description(UnknownOutcome::kRecover),
              EndsWith("nothing runs until the recovery handler has decided"));
}

TEST_F(UnknownOutcomeDescriptionTest, DescribesThatNothingIsChosen) {
  EXPECT_THAT(Description(std::nullopt), StartsWith("not chosen"));
}

}  // namespace
}  // namespace idempotency::internal
