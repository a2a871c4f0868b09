// Reservations that need not be durable when they are answered: which commits wait for the disk,
// and what a crash of the server loses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

ReserveOp Relaxed(const std::string& name, char request = 'a') {
  ReserveOp op = ReserveNamed(name, request);
  op.relaxed = true;
  return op;
}

// The process that flushes the log in the background is stopped, so that only commits flush it.
class PostgresRelaxedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::PostgresClusterOptions options;
    options.settings = {"autovacuum=off", "checkpoint_timeout=1h"};
    auto cluster = testing::PostgresCluster::Create(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    auto schema = testing::PostgresSchema::Create(cluster_->url());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    Open(schema_->options());
    StopWalWriter();
  }
  void TearDown() override {
    if (wal_writer_ > 0) kill(wal_writer_, SIGCONT);
    store_.reset();
    schema_.reset();
  }

  void Open(PostgresOptions options) {
    options.max_backoff = absl::Milliseconds(100);
    auto store = PostgresStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // Where it waits for something to do: it holds no lock there that a commit needs.
  void StopWalWriter() {
    wal_writer_ = std::atoi(WalWriter("pid").c_str());
    ASSERT_GT(wal_writer_, 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    do {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      ASSERT_EQ(kill(wal_writer_, SIGCONT), 0);
      while (WalWriter("wait_event") != "WalWriterMain") std::this_thread::yield();
      ASSERT_EQ(kill(wal_writer_, SIGSTOP), 0);
      while (StateOf(wal_writer_) != 'T') std::this_thread::yield();
    } while (WalWriter("wait_event") != "WalWriterMain");
  }
  std::string WalWriter(const std::string& column) {
    return schema_->Value("SELECT coalesce(" + column + "::text, '') FROM pg_stat_activity " +
                          "WHERE backend_type = 'walwriter'");
  }
  // As in /proc/PID/stat, whose second field is the name in parentheses.
  static char StateOf(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name_end = line.rfind(')');
    return name_end == std::string::npos ? '?' : line.at(name_end + 2);
  }
  // The server loses what it has only in memory, and recovers from its log.
  void Crash() {
    ASSERT_EQ(kill(std::exchange(wal_writer_, 0), SIGKILL), 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (cluster_->log().find("database system was not properly shut down") ==
               std::string::npos ||
           !store_->Inspect().ok()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << cluster_->log();
      std::this_thread::yield();
    }
  }

  std::string Flushed() { return schema_->Value("SELECT pg_current_wal_flush_lsn()"); }
  // Whether `call` waited for the disk.
  template <typename Call>
  bool Flushes(const Call& call) {
    const std::string before = Flushed();
    call();
    return Flushed() != before;
  }

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }
  // A first grant; the test fails if it is not one.
  Reserved Grant(const ReserveOp& op) {
    const absl::StatusOr<Verdict> verdict = Reserve(op);
    const auto* const reserved = As<Reserved>(verdict);
    EXPECT_NE(reserved, nullptr) << verdict.status();
    return reserved == nullptr ? Reserved() : *reserved;
  }
  // Of one operation that must succeed.
  bool Flushes(const CompleteOp& op) {
    return Flushes([&] { EXPECT_TRUE(store_->Complete({&op, 1}).at(0).ok()); });
  }
  bool Flushes(const ExtendOp& op) {
    return Flushes([&] { EXPECT_TRUE(store_->Extend({&op, 1}).at(0).ok()); });
  }
  bool Flushes(const ReleaseOp& op) {
    return Flushes([&] { EXPECT_TRUE(store_->Release({&op, 1}).at(0).ok()); });
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
  pid_t wal_writer_ = 0;
};

TEST_F(PostgresRelaxedTest, ABatchOfRelaxedReservationsDoesNotWaitForTheDisk) {
  EXPECT_FALSE(Flushes([&] { EXPECT_TRUE(Grant(Relaxed("alone")).relaxed); }));
  for (const int size : {2, 100}) {
    std::vector<ReserveOp> batch;
    for (int i = 0; i < size; ++i) batch.push_back(Relaxed(absl::StrCat(size, "-", i)));
    EXPECT_FALSE(Flushes([&] {
      for (const auto& verdict : store_->Reserve(batch)) {
        EXPECT_TRUE(As<Reserved>(verdict)->relaxed);
      }
    }));
  }
}

TEST_F(PostgresRelaxedTest, ADurableReservationMakesItsBatchDurable) {
  for (const int size : {2, 100}) {
    std::vector<ReserveOp> batch;
    for (int i = 0; i < size; ++i) batch.push_back(Relaxed(absl::StrCat(size, "-", i)));
    batch.back().relaxed = false;
    EXPECT_TRUE(Flushes([&] {
      for (const auto& verdict : store_->Reserve(batch)) {
        EXPECT_FALSE(As<Reserved>(verdict)->relaxed);
      }
    }));
  }
}

TEST_F(PostgresRelaxedTest, NothingElseIsRelaxed) {
  const ReserveOp done = Relaxed("done");
  const CompleteOp completion = CompleteNamed("done", Grant(done).token);
  EXPECT_TRUE(Flushes(ExtendNamed("done", completion.token)));
  ExtendOp checkpoint = ExtendNamed("done", completion.token);
  checkpoint.checkpoint = "half";
  EXPECT_TRUE(Flushes(checkpoint));
  EXPECT_TRUE(Flushes(completion));

  // The next attempt, although relaxed is requested again: attempts would not rise otherwise.
  EXPECT_TRUE(Flushes(ReleaseNamed("released", Grant(Relaxed("released")).token)));
  EXPECT_TRUE(Flushes([&] {
    const Reserved second = Grant(Relaxed("released"));
    EXPECT_EQ(second.attempt, 2u);
    EXPECT_FALSE(second.relaxed);
  }));
  ReserveOp lapsing = Relaxed("lapsing");
  lapsing.lease = absl::Milliseconds(10);
  Grant(lapsing);
  EXPECT_TRUE(Flushes([&] {
    while (As<InFlight>(Reserve(lapsing)) != nullptr) std::this_thread::yield();
  }));
  // A record that is forgotten and starts afresh.
  ReserveOp forgotten = Relaxed("forgotten");
  Grant(forgotten);
  ASSERT_TRUE(schema_
                  ->Execute("UPDATE records SET expires_at = now() - interval '1 hour',"
                            " lease_until = now() - interval '1 hour' WHERE key = 'forgotten'")
                  .ok());
  EXPECT_TRUE(Flushes([&] { EXPECT_FALSE(Grant(forgotten).relaxed); }));
}

TEST_F(PostgresRelaxedTest, InOneCommitWithACompletionItIsDurable) {
  const CompleteOp shared = CompleteNamed("shared", Grant(Relaxed("shared")).token);
  EXPECT_TRUE(Flushes([&] {
    const ReserveOp together = Relaxed("together");
    const SharedAnswers answers = store_->CompleteAndReserve({&shared, 1}, {&together, 1});
    EXPECT_TRUE(answers.completions.at(0).ok());
    EXPECT_FALSE(As<Reserved>(answers.verdicts.at(0))->relaxed);
  }));
}

TEST_F(PostgresRelaxedTest, AReplayOfARelaxedReservationWritesNothing) {
  const ReserveOp done = Relaxed("done");
  EXPECT_TRUE(Flushes(CompleteNamed("done", Grant(done).token)));
  EXPECT_FALSE(Flushes([&] { EXPECT_NE(As<Replay>(Reserve(done)), nullptr); }));
}

TEST_F(PostgresRelaxedTest, ACrashLosesWhatFollowedTheLastDurableCommitAndNothingElse) {
  const Reserved before = Grant(Relaxed("before"));
  const Reserved durable = Grant(ReserveNamed("durable"));
  const Reserved lost = Grant(Relaxed("lost"));
  Crash();

  EXPECT_EQ(Grant(ReserveNamed("new")).attempt, 1u);
  EXPECT_NE(As<InFlight>(Reserve(Relaxed("before"))), nullptr);
  EXPECT_NE(As<InFlight>(Reserve(ReserveNamed("durable"))), nullptr);
  const CompleteOp completed = CompleteNamed("before", before.token);
  EXPECT_TRUE(store_->Complete({&completed, 1}).at(0).ok());
  const ExtendOp extended = ExtendNamed("durable", durable.token);
  EXPECT_TRUE(store_->Extend({&extended, 1}).at(0).ok());

  // Its token writes nothing, and its key is free, also for another request.
  const CompleteOp complete = CompleteNamed("lost", lost.token);
  const ExtendOp extend = ExtendNamed("lost", lost.token);
  const ReleaseOp release = ReleaseNamed("lost", lost.token);
  const auto expect_refused = [&] {
    EXPECT_EQ(ReasonOf(store_->Complete({&complete, 1}).at(0).status()), Reason::kReservationLost);
    EXPECT_EQ(ReasonOf(store_->Extend({&extend, 1}).at(0).status()), Reason::kReservationLost);
    EXPECT_EQ(ReasonOf(store_->Release({&release, 1}).at(0)), Reason::kReservationLost);
  };
  expect_refused();
  const Reserved again = Grant(Relaxed("lost", 'b'));
  EXPECT_EQ(again.attempt, 1u);
  EXPECT_NE(again.token, lost.token);
  expect_refused();
  EXPECT_NE(As<Mismatch>(Reserve(Relaxed("lost"))), nullptr) << "the first request, again";
}

TEST_F(PostgresRelaxedTest, ARelaxedGrantIsNoProofThatCommitsSucceed) {
  ASSERT_TRUE(schema_->Execute("ALTER SYSTEM SET synchronous_standby_names TO 'nobody'").ok());
  ASSERT_TRUE(schema_->Execute("SELECT pg_reload_conf()").ok());
  PostgresOptions options = schema_->options();
  options.commit_proof = absl::Seconds(1);
  options.probe_timeout = absl::Milliseconds(300);
  options.statement_timeout = absl::Milliseconds(500);
  options.reply_grace = absl::Milliseconds(200);
  Open(options);
  // Until the proof by an earlier commit is over.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  int keys = 0;
  do {
    EXPECT_TRUE(Grant(Relaxed(absl::StrCat("key-", ++keys))).relaxed) << "it waits for no standby";
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  } while (store_->Inspect().ok());
}

}  // namespace
}  // namespace idempotency::internal
