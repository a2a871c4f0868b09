#include "server/store/postgres/records/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

struct Op {
  RecordId id;
};

using Batch = PostgresBatch<Op, absl::Status>;
using Indices = Batch::Indices;

// Ids that fall with the index.
std::vector<Op> Ops(int count) {
  std::vector<Op> ops;
  for (int i = 0; i < count; ++i) {
    Uuid::Bytes bytes{};
    bytes[15] = static_cast<std::uint8_t>(count - i);
    ops.push_back({Uuid(bytes)});
  }
  return ops;
}

// A batch whose statements return the test's results.
class PostgresBatchTest : public ::testing::Test {
 protected:
  // Runs rounds of `round`, an absl::Status(Batch&, const Indices&), and of `set_aside`.
  template <typename Round, typename SetAside>
  std::vector<absl::Status> Run(int count, Round round, SetAside set_aside) {
    const std::vector<Op> ops = Ops(count);
    Batch batch(ops);
    const auto counted_round = [&](const Indices& pending) {
      rounds_.push_back(pending);
      return round(batch, pending);
    };
    const auto counted_set_aside = [&](const Indices& pending) {
      set_asides_.push_back(pending);
      return set_aside(batch, pending);
    };
    int lock_waits = kMaxPostgresLockWaits;
    RunRounds(batch, batch.All(), counted_round, counted_set_aside, lock_waits);
    locked_ = batch.locked();
    return std::move(batch).Take();
  }
  template <typename Round>
  std::vector<absl::Status> Run(int count, Round round) {
    return Run(count, round, [](Batch&, const Indices&) { return absl::OkStatus(); });
  }

  // The arguments of each round, and of each search for locked rows.
  std::vector<Indices> rounds_;
  std::vector<Indices> set_asides_;
  std::vector<RecordId> locked_;
};

TEST_F(PostgresBatchTest, FindsAnOperationByItsRecord) {
  const std::vector<Op> ops = Ops(5);
  const Batch batch(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(batch.IndexOf(ops[i].id), i);
}

TEST_F(PostgresBatchTest, ARecordOfNoOperationEndsTheProcess) {
  const std::vector<Op> ops = Ops(5);
  const Batch batch(ops);
  EXPECT_DEATH(batch.IndexOf(RecordId()), "another record");
  Uuid::Bytes behind_all{};
  behind_all[15] = 6;
  EXPECT_DEATH(batch.IndexOf(Uuid(behind_all)), "another record");
}

TEST_F(PostgresBatchTest, AllAreInTheOrderOfTheirIds) {
  const std::vector<Op> ops = Ops(3);
  EXPECT_EQ(Batch(ops).All(), Indices({2, 1, 0}));
}

TEST_F(PostgresBatchTest, WhatHasNoAnswerIsLookedAtAgain) {
  const auto answers = Run(3, [](Batch& batch, const Indices& pending) {
    batch.Settle(pending.front(), absl::OkStatus());
    return absl::OkStatus();
  });
  for (const absl::Status& answer : answers) EXPECT_TRUE(answer.ok()) << answer;
  EXPECT_EQ(rounds_, std::vector<Indices>({{2, 1, 0}, {1, 0}, {0}}));
}

TEST_F(PostgresBatchTest, ARecordThatKeepsChangingIsAbandonedAfterSixteenReads) {
  const auto answers = Run(1, [](Batch&, const Indices&) { return absl::OkStatus(); });
  EXPECT_EQ(ReasonOf(answers.at(0)), Reason::kStoreUnavailable);
  EXPECT_EQ(rounds_.size(), 16u);
}

TEST_F(PostgresBatchTest, WhatIsAnsweredInTheLastLookStays) {
  const auto answers = Run(1, [this](Batch& batch, const Indices& pending) {
    if (rounds_.size() == 16) batch.Settle(pending.front(), absl::OkStatus());
    return absl::OkStatus();
  });
  EXPECT_TRUE(answers.at(0).ok()) << answers.at(0);
}

// A statement with one value that cannot be stored fails for all of its operations.
TEST_F(PostgresBatchTest, OneBadValueFailsAloneAndTheOthersContinueByHalves) {
  constexpr std::size_t kBad = 5;
  const auto answers = Run(8, [](Batch& batch, const Indices& pending) {
    for (const std::size_t index : pending) {
      if (index == kBad) return absl::InvalidArgumentError("SQLSTATE 22021");
    }
    for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
    return absl::OkStatus();
  });
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i == kBad) {
      EXPECT_EQ(ReasonOf(answers[i]), Reason::kRequestInvalid) << answers[i];
    } else {
      EXPECT_TRUE(answers[i].ok()) << i << answers[i];
    }
  }
  EXPECT_EQ(rounds_,
            std::vector<Indices>(
                {{7, 6, 5, 4, 3, 2, 1, 0}, {7, 6, 5, 4}, {3, 2, 1, 0}, {7, 6}, {5, 4}, {5}, {4}}));
}

TEST_F(PostgresBatchTest, ADamagedRowFailsAlone) {
  const auto answers = Run(4, [](Batch& batch, const Indices& pending) {
    for (const std::size_t index : pending) {
      if (index == 2) return absl::DataLossError("SQLSTATE XX001");
    }
    for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
    return absl::OkStatus();
  });
  for (const std::size_t i : {0, 1, 3}) EXPECT_TRUE(answers.at(i).ok()) << i << answers.at(i);
  EXPECT_EQ(ReasonOf(answers.at(2)), Reason::kRecordDamaged);
}

absl::Status MediaFailure() { return absl::UnavailableError("SQLSTATE 58030"); }

// A round that fails where one of the operations is `bad`.
template <typename IsBad>
auto FailingAt(const IsBad& bad) {
  return [bad](Batch& batch, const Indices& pending) {
    if (std::any_of(pending.begin(), pending.end(), bad)) return MediaFailure();
    for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
    return absl::OkStatus();
  };
}

TEST_F(PostgresBatchTest, ARowThatStorageDoesNotGiveFailsAlone) {
  for (const char* const state : {"58030", "58P01", "XX000 of storage"}) {
    const absl::Status failure = absl::UnavailableError(absl::StrCat("SQLSTATE ", state));
    const auto answers = Run(4, [&failure](Batch& batch, const Indices& pending) {
      if (std::count(pending.begin(), pending.end(), 2) > 0) return failure;
      for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
      return absl::OkStatus();
    });
    for (const std::size_t i : {0, 1, 3}) EXPECT_TRUE(answers.at(i).ok()) << i << answers.at(i);
    EXPECT_EQ(ReasonOf(answers.at(2)), Reason::kStoreUnavailable) << state;
    EXPECT_EQ(DetailsOf(answers.at(2)).retry_delay, retry_delays::kPostgresUnconfirmed);
  }
}

TEST_F(PostgresBatchTest, ABadPageOfManyRowsFailsThoseAlone) {
  constexpr std::size_t kRows = 40;
  for (const std::size_t first : {0, 70, 200}) {
    rounds_.clear();
    const auto is_bad = [first](std::size_t i) { return i >= first && i < first + kRows; };
    const auto answers = Run(256, FailingAt(is_bad));
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].ok(), !is_bad(i)) << i;
    EXPECT_LT(rounds_.size(), 2 * kRows + 32);
  }
}

TEST_F(PostgresBatchTest, AnOutageOfStorageCostsSixteenStatements) {
  for (const int count : {16, 64, 256}) {
    rounds_.clear();
    const auto answers = Run(count, FailingAt([](std::size_t) { return true; }));
    for (const absl::Status& answer : answers) {
      EXPECT_EQ(ReasonOf(answer), Reason::kStoreUnavailable);
      EXPECT_EQ(DetailsOf(answer).retry_delay, retry_delays::kPostgresUnconfirmed);
    }
    EXPECT_EQ(rounds_.size(), 16u) << count;
  }
}

TEST_F(PostgresBatchTest, OtherFailuresAreNoOutageOfStorage) {
  constexpr std::size_t kCount = 64;
  const auto answers =
      Run(kCount, [](Batch&, const Indices&) { return absl::DataLossError("SQLSTATE XX001"); });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(ReasonOf(answer), Reason::kRecordDamaged);
  }
  EXPECT_EQ(rounds_.size(), 2 * kCount - 1);
}

TEST_F(PostgresBatchTest, AnUnavailableStoreIsTriedOnce) {
  const auto answers =
      Run(4, [](Batch&, const Indices&) { return absl::UnavailableError("SQLSTATE 08006"); });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(ReasonOf(answer), Reason::kStoreUnavailable);
    EXPECT_EQ(DetailsOf(answer).retry_delay, retry_delays::kPostgresUnconfirmed);
  }
  EXPECT_EQ(rounds_.size(), 1u);
}

TEST_F(PostgresBatchTest, WhatWasAnsweredBeforeTheFailureStays) {
  const auto answers = Run(2, [](Batch& batch, const Indices& pending) {
    batch.Settle(pending.front(), absl::OkStatus());
    return absl::UnavailableError("SQLSTATE 08006");
  });
  EXPECT_EQ(ReasonOf(answers.at(0)), Reason::kStoreUnavailable);
  EXPECT_TRUE(answers.at(1).ok()) << answers.at(1);
}

TEST_F(PostgresBatchTest, LockedRowsAreSetAsideAndTheOthersContinue) {
  const auto answers = Run(
      4,
      [](Batch& batch, const Indices& pending) {
        if (pending.size() == 4) return absl::DeadlineExceededError("locked");
        for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
        return absl::OkStatus();
      },
      [](Batch& batch, const Indices&) {
        batch.FailLocked(1);
        return absl::OkStatus();
      });
  for (const std::size_t i : {0, 2, 3}) EXPECT_TRUE(answers.at(i).ok()) << i;
  EXPECT_EQ(ReasonOf(answers.at(1)), Reason::kStoreUnavailable);
  EXPECT_EQ(DetailsOf(answers.at(1)).retry_delay, retry_delays::kRowLocked);
  EXPECT_EQ(rounds_, std::vector<Indices>({{3, 2, 1, 0}, {3, 2, 0}}));
  EXPECT_EQ(locked_, std::vector<RecordId>({Ops(4)[1].id}));
}

TEST_F(PostgresBatchTest, WithoutANamedLockedRowTheyContinueSeparately) {
  const auto answers = Run(2, [](Batch& batch, const Indices& pending) {
    if (pending.front() == 1) return absl::DeadlineExceededError("locked");
    batch.Settle(pending.front(), absl::OkStatus());
    return absl::OkStatus();
  });
  EXPECT_TRUE(answers.at(0).ok()) << answers.at(0);
  EXPECT_EQ(ReasonOf(answers.at(1)), Reason::kStoreUnavailable);
  EXPECT_EQ(rounds_, std::vector<Indices>({{1, 0}, {1}, {0}}));
}

// Each wait takes PostgresOptions::lock_timeout.
TEST_F(PostgresBatchTest, ABatchWaitsForLocksFourTimesAtMost) {
  const auto answers = Run(
      8, [](Batch&, const Indices&) { return absl::DeadlineExceededError("locked"); },
      [](Batch& batch, const Indices& pending) {
        batch.FailLocked(pending.front());
        return absl::OkStatus();
      });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(ReasonOf(answer), Reason::kStoreUnavailable);
    EXPECT_EQ(DetailsOf(answer).retry_delay, retry_delays::kRowLocked);
  }
  EXPECT_EQ(rounds_.size(), 4u);
  EXPECT_EQ(set_asides_.size(), 3u);
}

TEST_F(PostgresBatchTest, TheRestFailsIfTheLockedRowsAreUnknown) {
  const auto answers = Run(
      2, [](Batch&, const Indices&) { return absl::DeadlineExceededError("locked"); },
      [](Batch& batch, const Indices& pending) {
        batch.FailLocked(pending.front());
        return absl::UnavailableError("SQLSTATE 08006");
      });
  EXPECT_EQ(DetailsOf(answers.at(0)).retry_delay, retry_delays::kPostgresUnconfirmed);
  EXPECT_EQ(DetailsOf(answers.at(1)).retry_delay, retry_delays::kRowLocked);
  EXPECT_EQ(rounds_.size(), 1u);
}

TEST_F(PostgresBatchTest, ARowThatCannotBeReadBesideALockedOneFailsAlone) {
  const auto has = [](const Indices& pending, std::size_t index) {
    return std::find(pending.begin(), pending.end(), index) != pending.end();
  };
  const auto answers = Run(
      4,
      [&](Batch& batch, const Indices& pending) {
        if (has(pending, 1)) return absl::DeadlineExceededError("locked");
        if (has(pending, 2)) return absl::DataLossError("SQLSTATE XX001");
        for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
        return absl::OkStatus();
      },
      [&](Batch& batch, const Indices& pending) {
        if (has(pending, 2)) return absl::DataLossError("SQLSTATE XX001");
        batch.FailLocked(1);
        return absl::OkStatus();
      });
  EXPECT_TRUE(answers.at(0).ok()) << answers.at(0);
  EXPECT_EQ(ReasonOf(answers.at(1)), Reason::kStoreUnavailable) << answers.at(1);
  EXPECT_EQ(ReasonOf(answers.at(2)), Reason::kRecordDamaged) << answers.at(2);
  EXPECT_TRUE(answers.at(3).ok()) << answers.at(3);
}

TEST_F(PostgresBatchTest, NothingIsLookedForOnceAllIsAnswered) {
  const auto answers = Run(2, [](Batch& batch, const Indices& pending) {
    for (const std::size_t index : pending) batch.Settle(index, absl::OkStatus());
    return absl::DeadlineExceededError("locked");
  });
  for (const absl::Status& answer : answers) EXPECT_TRUE(answer.ok()) << answer;
  EXPECT_EQ(rounds_.size(), 1u);
  EXPECT_TRUE(set_asides_.empty());
}

}  // namespace
}  // namespace idempotency::internal
