// Rows that another transaction has locked: the batch's other operations continue.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/testing/store_fixture.h"

namespace idempotency::internal {
namespace {

// Another connection holds locks on half of a batch's rows.
class PostgresLockTest : public PostgresStoreTest {
 protected:
  static constexpr int kOps = 64;

  void SetUp() override {
    lock_timeout_ = absl::Milliseconds(200);
    PostgresStoreTest::SetUp();
    for (int i = 0; i < kOps; ++i) reserving_.push_back(OpFor(absl::StrCat("key-", i)));
    for (const auto& verdict : store_->Reserve(reserving_)) {
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      tokens_.push_back(std::get<Reserved>(*verdict).token);
    }
  }

  // Odd ones; released by ROLLBACK.
  void LockHalf(const std::string& with = "SELECT FROM records {where} FOR UPDATE") {
    std::string ids;
    for (int i = 1; i < kOps; i += 2) {
      absl::StrAppend(&ids, ids.empty() ? "" : "','", reserving_[i].id.ToString());
    }
    Run(absl::StrCat(
        "BEGIN; ",
        absl::StrReplaceAll(with, {{"{where}", absl::StrCat("WHERE id IN ('", ids, "')")}})));
  }
  // A record like the others, of another key; ended by COMMIT or ROLLBACK.
  void BeginInsertOf(const ReserveOp& op) {
    Run(
        absl::StrCat("BEGIN; INSERT INTO records (id, namespace, scope, operation, key, state,"
                     " require_recovery, attempt, token, created_at, lease_until, expires_at,"
                     " fingerprints) SELECT '",
                     op.id.ToString(), "', namespace, scope, operation, '", op.key.key,
                     "', state, require_recovery, attempt, gen_random_uuid(), created_at,"
                     " lease_until, expires_at, fingerprints FROM records WHERE id = '",
                     reserving_[0].id.ToString(), "'"));
  }
  void Run(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }

  std::vector<ExtendOp> Heartbeats() const {
    std::vector<ExtendOp> ops;
    for (int i = 0; i < kOps; ++i) {
      ops.push_back({reserving_[i].key, reserving_[i].id, tokens_[i], absl::Seconds(60), {}});
    }
    return ops;
  }
  std::vector<CompleteOp> Completions() const {
    std::vector<CompleteOp> ops;
    for (int i = 0; i < kOps; ++i) {
      ops.push_back({reserving_[i].key, reserving_[i].id, tokens_[i], ReplyWith("paid")});
    }
    return ops;
  }

  template <typename Answers>
  static void ExpectHalf(const Answers& answers) {
    ASSERT_EQ(answers.size(), static_cast<std::size_t>(kOps));
    for (int i = 0; i < kOps; ++i) {
      if (i % 2 == 0) {
        EXPECT_TRUE(answers[i].ok()) << i << answers[i].status();
      } else {
        EXPECT_EQ(ReasonOf(answers[i].status()), Reason::kStoreUnavailable) << i;
      }
    }
  }

  // Repeats it until the pause of the rows that were found locked is over.
  template <typename Answers>
  static void ExpectAll(const std::function<Answers()>& attempt) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Answers answers = attempt();
    const auto done = [](const auto& answer) { return answer.ok(); };
    while (!std::all_of(answers.begin(), answers.end(), done)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      answers = attempt();
    }
  }

  std::vector<ReserveOp> reserving_;
  std::vector<Uuid> tokens_;
};

TEST_F(PostgresLockTest, HeartbeatsOfOthersContinue) {
  LockHalf();
  ExpectHalf(store_->Extend(Heartbeats()));
  Run("ROLLBACK");
  ExpectAll(std::function([this] { return store_->Extend(Heartbeats()); }));
}

TEST_F(PostgresLockTest, CompletionsOfOthersContinueAndSoDoReservationsBesideThem) {
  LockHalf();
  std::vector<ReserveOp> fresh;
  for (int i = 0; i < kOps; ++i) fresh.push_back(OpFor(absl::StrCat("new-", i)));
  const SharedAnswers answers = store_->CompleteAndReserve(Completions(), fresh);
  ExpectHalf(answers.completions);
  for (const auto& verdict : answers.verdicts) EXPECT_TRUE(verdict.ok()) << verdict.status();
  Run("ROLLBACK");
  ExpectAll(std::function([this] { return store_->Complete(Completions()); }));
}

// A caller repeats operations that failed; without a pause each repeat made its batch wait.
TEST_F(PostgresLockTest, ARowThatWasFoundLockedIsNotTriedForAWhile) {
  PostgresOptions options = schema_->options();
  options.lock_timeout = lock_timeout_;
  options.locked_pause = absl::Hours(1);
  store_ = PostgresStore::Create(options).value();
  LockHalf();
  ExpectHalf(store_->Extend(Heartbeats()));
  Run("ROLLBACK");
  // No statement waits, and none detects that the rows are no longer locked.
  ExpectHalf(store_->Extend(Heartbeats()));
  std::vector<ReserveOp> fresh = {OpFor("new")};
  const SharedAnswers answers = store_->CompleteAndReserve(Completions(), fresh);
  ExpectHalf(answers.completions);
  EXPECT_TRUE(answers.verdicts.at(0).ok());
  // Reading does not wait.
  const GetOp look{reserving_[1].id, reserving_[1].key};
  EXPECT_TRUE(store_->Get({&look, 1}).at(0).ok());
  // Another process sees the rows as they are.
  store_ = PostgresStore::Create(schema_->options()).value();
  for (const auto& completed : store_->Complete(Completions())) EXPECT_TRUE(completed.ok());
}

TEST_F(PostgresLockTest, TakeOversOfOthersContinue) {
  Run("UPDATE records SET lease_until = clock_timestamp()");
  LockHalf("UPDATE records SET scope = scope {where}");
  std::vector<ReserveOp> ops = reserving_;
  for (ReserveOp& op : ops) op.request_token = Uuid::Random();
  ExpectHalf(store_->Reserve(ops));
  Run("ROLLBACK");
}

// Such a row is invisible to other connections, so that it cannot be named.
TEST_F(PostgresLockTest, ReservationsBesideAKeyThatIsBeingInsertedContinue) {
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 4; ++i) ops.push_back(OpFor(absl::StrCat("new-", i)));
  BeginInsertOf(ops[2]);
  const auto verdicts = store_->Reserve(ops);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(verdicts[i].ok(), i != 2) << i << verdicts[i].status();
  EXPECT_EQ(ReasonOf(verdicts[2].status()), Reason::kStoreUnavailable);
  Run("ROLLBACK");
}

// Each completes a record that the other one reserves again, after a key that keeps both waiting
// until both have completed theirs.
TEST_F(PostgresLockTest, CallsThatCompleteAndRepeatCrosswiseDoNotWaitForEachOther) {
  std::vector<std::size_t> order(kOps);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return reserving_[b].id < reserving_[a].id; });
  const std::vector<CompleteOp> completions = Completions();
  const ReserveOp first = OpFor("new");
  ASSERT_LT(first.id, reserving_[order[1]].id);

  PostgresOptions options = schema_->options();
  // A detected deadlock would be resolved sooner.
  absl::StrAppend(&options.url, "&options=-cdeadlock_timeout%3D60s");
  options.lock_timeout = absl::Seconds(5);
  BeginInsertOf(first);
  const auto call = [&](std::size_t completed, std::size_t repeated) {
    const auto store = PostgresStore::Create(options).value();
    const std::vector<ReserveOp> reservations = {first, reserving_[repeated]};
    return store->CompleteAndReserve({&completions[completed], 1}, reservations);
  };
  auto one = std::async(std::launch::async, call, order[0], order[1]);
  auto other = std::async(std::launch::async, call, order[1], order[0]);
  // No view of statistics, which keeps its values within a transaction.
  EXPECT_TRUE(
      Await("SELECT count(*) FROM pg_locks WHERE NOT granted"
            " AND pg_backend_pid() = ANY(pg_blocking_pids(pid))",
            "2"));
  const auto before = std::chrono::steady_clock::now();
  Run("COMMIT");
  for (auto* const called : {&one, &other}) {
    const SharedAnswers answers = called->get();
    for (const auto& completion : answers.completions) {
      EXPECT_TRUE(completion.ok()) << completion.status();
    }
    for (const auto& verdict : answers.verdicts) EXPECT_TRUE(verdict.ok()) << verdict.status();
  }
  EXPECT_LT(absl::FromChrono(std::chrono::steady_clock::now() - before), options.lock_timeout / 2);
}

TEST_F(PostgresLockTest, TheSweepWaitsForNoRow) {
  Run("UPDATE records SET created_at = created_at - interval '40 days',"
      " lease_until = lease_until - interval '40 days',"
      " expires_at = expires_at - interval '40 days'");
  LockHalf();
  const auto swept = store_->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->removed, kOps / 2);
  Run("ROLLBACK");
}

// A process that was stopped in a transaction.
TEST_F(PostgresLockTest, AConnectionThatStandsStillInATransactionLosesItsLocks) {
  SocketWatchdog watchdog;
  PostgresOptions options = schema_->options();
  options.idle_in_transaction_timeout = absl::Milliseconds(300);
  auto frozen = PostgresConnection::Open(options, watchdog);
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  ASSERT_TRUE((*frozen)->Begin().ok());
  ASSERT_TRUE((*frozen)->ExecuteScript("SELECT FROM records FOR UPDATE").ok());
  EXPECT_TRUE(
      Await("SELECT count(*) FROM pg_locks WHERE relation = 'records'::regclass"
            " AND mode = 'RowShareLock'",
            "0"));
  for (const auto& extended : store_->Extend(Heartbeats())) {
    EXPECT_TRUE(extended.ok()) << extended.status();
  }
}

}  // namespace
}  // namespace idempotency::internal
