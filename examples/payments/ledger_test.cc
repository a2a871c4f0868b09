#include "examples/payments/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"

namespace payments {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Reopen();
    ASSERT_TRUE(ledger_->OpenAccount("alice", 1000).ok());
  }

  void Reopen() {
    ledger_.reset();
    auto ledger = Ledger::Open(folder_.File("ledger.sqlite"));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
  }
  std::int64_t BalanceOf(const std::string& account) {
    return ledger_->Balance(account).value_or(-1);
  }
  std::size_t EntryCount() { return ledger_->Entries("alice", 1000).value().size(); }

  idempotency::internal::testing::TempFolder folder_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerTest, AChargeMovesMoneyAndNamesItsRecord) {
  const auto posting = ledger_->Charge("alice", 300, "rent", {"record-1", 2});
  ASSERT_TRUE(posting.ok()) << posting.status();
  EXPECT_EQ(posting->balance_cents, 700);
  EXPECT_EQ(BalanceOf("alice"), 700);

  const auto entries = ledger_->Entries("alice", 10);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  const Ledger::Entry& entry = entries->front();
  EXPECT_EQ(entry.id, posting->entry_id);
  EXPECT_EQ(entry.amount_cents, -300);
  EXPECT_EQ(entry.note, "rent");
  EXPECT_EQ(entry.origin.record_id, "record-1");
  EXPECT_EQ(entry.origin.attempt, 2u);
  EXPECT_THAT(entry.at, ::testing::MatchesRegex("[0-9-]*T[0-9:.]*Z"));
}

TEST_F(LedgerTest, ADoubleChargeWithoutARecordShows) {
  ASSERT_TRUE(ledger_->Charge("alice", 300, "", {}).ok());
  ASSERT_TRUE(ledger_->Charge("alice", 300, "", {}).ok());
  EXPECT_EQ(BalanceOf("alice"), 400);
  EXPECT_EQ(EntryCount(), 2u);
}

TEST_F(LedgerTest, ASecondExecutionOfARecordFindsTheFirstOnesPosting) {
  const auto first = ledger_->Charge("alice", 300, "", {"record-1", 1});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(ledger_->Charge("alice", 100, "", {"record-2", 1}).ok());
  const auto second = ledger_->Charge("alice", 300, "", {"record-1", 2});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->entry_id, first->entry_id);
  EXPECT_EQ(second->balance_cents, 700) << "as in the first reply";
  const auto refund = ledger_->Refund(first->entry_id, 300, "", {"record-3", 1});
  ASSERT_TRUE(refund.ok());
  EXPECT_EQ(ledger_->Refund(first->entry_id, 300, "", {"record-3", 2})->entry_id, refund->entry_id);
  EXPECT_EQ(BalanceOf("alice"), 900);
  EXPECT_EQ(EntryCount(), 3u);
}

TEST_F(LedgerTest, ADeclinedChargeLeavesNoTrace) {
  EXPECT_EQ(ledger_->Charge("alice", 1001, "", {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(BalanceOf("alice"), 1000);
  EXPECT_EQ(EntryCount(), 0u);
  // The whole balance is allowed.
  EXPECT_TRUE(ledger_->Charge("alice", 1000, "", {}).ok());
  EXPECT_EQ(BalanceOf("alice"), 0);
}

TEST_F(LedgerTest, RefusesWhatIsNotThere) {
  EXPECT_EQ(ledger_->Charge("nobody", 1, "", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ledger_->Balance("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ledger_->Refund(77, 1, "", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LedgerTest, RefusesAmountsThatAreNotMoreThanZero) {
  const auto charge = ledger_->Charge("alice", 300, "", {});
  ASSERT_TRUE(charge.ok());
  for (const std::int64_t amount : {std::int64_t{0}, std::int64_t{-5}, INT64_MIN}) {
    EXPECT_EQ(ledger_->Charge("alice", amount, "", {}).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ledger_->Refund(charge->entry_id, amount, "", {}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(BalanceOf("alice"), 700);
}

TEST_F(LedgerTest, RefundsGiveBackNoMoreThanWasCharged) {
  const auto charge = ledger_->Charge("alice", 300, "", {});
  ASSERT_TRUE(charge.ok());
  const auto first = ledger_->Refund(charge->entry_id, 200, "late", {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->balance_cents, 900);
  EXPECT_EQ(ledger_->Refund(charge->entry_id, 101, "", {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ledger_->Refund(charge->entry_id, 100, "", {}).ok());
  EXPECT_EQ(BalanceOf("alice"), 1000);
  // A refund is not a charge, so it cannot be refunded.
  EXPECT_EQ(ledger_->Refund(first->entry_id, 1, "", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(LedgerTest, OpeningAnAccountAgainKeepsItsBalance) {
  ASSERT_TRUE(ledger_->Charge("alice", 300, "", {}).ok());
  EXPECT_TRUE(ledger_->OpenAccount("alice", 1000).ok());
  EXPECT_EQ(BalanceOf("alice"), 700);
  EXPECT_EQ(ledger_->OpenAccount("carol", -1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger_->OpenAccount("", 1).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerTest, WhatItAnsweredIsThereAfterReopening) {
  const auto charge = ledger_->Charge("alice", 300, "", {});
  ASSERT_TRUE(charge.ok());
  Reopen();
  EXPECT_EQ(BalanceOf("alice"), 700);
  EXPECT_TRUE(ledger_->Refund(charge->entry_id, 300, "", {}).ok());
}

TEST_F(LedgerTest, EntriesAreNewestFirstAndLimited) {
  for (const std::int64_t amount : {1, 2, 3}) {
    ASSERT_TRUE(ledger_->Charge("alice", amount, "", {}).ok());
  }
  EXPECT_THAT(ledger_->Entries("alice", 2).value(),
              ElementsAre(Field(&Ledger::Entry::amount_cents, -3),
                          Field(&Ledger::Entry::amount_cents, -2)));
}

TEST_F(LedgerTest, ChargesFromManyThreadsNeverOverdraw) {
  constexpr int kThreads = 8;
  constexpr int kChargesEach = 25;  // 8 * 25 * 10 cents: twice what there is
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      pthread_setname_np(pthread_self(), "charger");
      for (int charge = 0; charge < kChargesEach; ++charge) {
        ledger_->Charge("alice", 10, "", {}).IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(BalanceOf("alice"), 0);
  EXPECT_EQ(EntryCount(), 100u);
}

TEST_F(LedgerTest, AFileThatCannotBeOpenedIsAnError) {
  EXPECT_FALSE(Ledger::Open(folder_.File("no/such/folder.sqlite")).ok());
  EXPECT_FALSE(Ledger::Open(folder_.path()).ok());
}

}  // namespace
}  // namespace payments
