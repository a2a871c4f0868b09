// Calls whose first statement is sent by one thread, and finished by another.
#include "server/store/held_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

bool AwaitReadable(const HeldConnection& connection) {
  constexpr int kTimeoutMs = 20'000;
  pollfd event = {connection.descriptor(), POLLIN, 0};
  return poll(&event, 1, kTimeoutMs) == 1;
}

class PostgresHeldConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    Open();
  }
  void Open(absl::Duration statement_timeout = absl::Seconds(30)) {
    PostgresOptions options = schema_->options();
    // So that every call is on the same connection.
    options.connections = 1;
    options.application_name = options.schema;
    options.statement_timeout = statement_timeout;
    options.reply_grace = absl::Milliseconds(200);
    store_ = PostgresStore::Create(options).value();
    // The statements have to be prepared.
    const Uuid token = MustReserve("first");
    const CompleteOp completion = CompleteNamed("first", token);
    ASSERT_TRUE(store_->Complete({&completion, 1}).at(0).ok());
  }

  Uuid MustReserve(std::string_view name) {
    const ReserveOp op = ReserveNamed(name);
    const auto verdict = store_->Reserve({&op, 1}).at(0);
    const auto* const reserved = verdict.ok() ? std::get_if<Reserved>(&*verdict) : nullptr;
    EXPECT_NE(reserved, nullptr) << verdict.status();
    return reserved == nullptr ? Uuid() : reserved->token;
  }
  std::unique_ptr<HeldConnection> Hold(std::function<void()> wanted = [] {}) {
    return store_->Hold(std::move(wanted));
  }
  // Through a held connection; nullopt if the call did not begin.
  std::optional<absl::StatusOr<Verdict>> BeginAndFinish(const ReserveOp& op) {
    const auto connection = Hold();
    if (connection == nullptr || !connection->BeginReserve({&op, 1})) return std::nullopt;
    EXPECT_TRUE(AwaitReadable(*connection));
    return connection->FinishReserve().at(0);
  }
  std::string Backend() {
    return schema_->Value(
        absl::StrCat("SELECT pid FROM pg_stat_activity WHERE application_name = '",
                     schema_->options().schema, "'"));
  }
  // Returns when the store's connection has ended.
  void EndConnection() {
    EXPECT_EQ(schema_->Value(absl::StrCat("SELECT pg_terminate_backend(", Backend(), ", 20000)")),
              "t");
  }

  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
};

TEST_F(PostgresHeldConnectionTest, ACallBeginsAndIsFinished) {
  const auto verdict = BeginAndFinish(ReserveNamed("one"));
  ASSERT_TRUE(verdict.has_value());
  ASSERT_TRUE(verdict->ok()) << verdict->status();
  const auto* const reserved = std::get_if<Reserved>(&**verdict);
  ASSERT_NE(reserved, nullptr);
  EXPECT_EQ(schema_->Value("SELECT token FROM records WHERE key = 'one'"),
            reserved->token.ToString());

  const CompleteOp completion = CompleteNamed("one", reserved->token);
  const auto connection = Hold();
  ASSERT_TRUE(connection->BeginComplete({&completion, 1}));
  ASSERT_TRUE(AwaitReadable(*connection));
  EXPECT_TRUE(connection->FinishComplete().at(0).ok());
  EXPECT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'one'"), "2");
}

TEST_F(PostgresHeldConnectionTest, FurtherRoundsDecideOnAKnownRecord) {
  MustReserve("running");
  const auto running = BeginAndFinish(ReserveNamed("running"));
  ASSERT_TRUE(running.has_value() && running->ok());
  EXPECT_NE(std::get_if<InFlight>(&**running), nullptr);

  const auto replay = BeginAndFinish(ReserveNamed("first"));
  ASSERT_TRUE(replay.has_value() && replay->ok());
  EXPECT_NE(std::get_if<Replay>(&**replay), nullptr);
}

TEST_F(PostgresHeldConnectionTest, WhereMostAreKnownTheCallBeginsWithARead) {
  for (int i = 0; i < 20; ++i) {
    const ReserveOp op = ReserveNamed("first");
    EXPECT_TRUE(store_->Reserve({&op, 1}).at(0).ok());
  }
  const auto replay = BeginAndFinish(ReserveNamed("first"));
  ASSERT_TRUE(replay.has_value() && replay->ok());
  EXPECT_NE(std::get_if<Replay>(&**replay), nullptr);
  const auto reserved = BeginAndFinish(ReserveNamed("new"));
  ASSERT_TRUE(reserved.has_value() && reserved->ok());
  EXPECT_NE(std::get_if<Reserved>(&**reserved), nullptr);
}

TEST_F(PostgresHeldConnectionTest, AReplyThatMightNotFitTheSocketDoesNotBegin) {
  const Uuid token = MustReserve("large");
  const CompleteOp completion =
      CompleteNamed("large", token, std::string(PostgresConnection::kMaxSentBytes, 'x'));
  auto connection = Hold();
  EXPECT_FALSE(connection->BeginComplete({&completion, 1}));
  connection.reset();
  EXPECT_TRUE(store_->Complete({&completion, 1}).at(0).ok());
}

TEST_F(PostgresHeldConnectionTest, AStatementThatTheConnectionHasNotPreparedDoesNotBegin) {
  ReserveOp op = ReserveNamed("relaxed");
  op.relaxed = true;
  EXPECT_FALSE(BeginAndFinish(op).has_value());
  EXPECT_TRUE(store_->Reserve({&op, 1}).at(0).ok());
  op = ReserveNamed("relaxed 2");
  op.relaxed = true;
  EXPECT_TRUE(BeginAndFinish(op).has_value());
}

TEST_F(PostgresHeldConnectionTest, AConnectionWhoseServerEndsItIsReadableAndBeginsNothing) {
  auto connection = Hold();
  ASSERT_NE(connection, nullptr);
  EndConnection();
  EXPECT_TRUE(AwaitReadable(*connection));
  const ReserveOp op = ReserveNamed("one");
  EXPECT_FALSE(connection->BeginReserve({&op, 1}));
  connection.reset();
  EXPECT_EQ(Hold(), nullptr) << "it is lost, and another one is opened by the next call";
  MustReserve("one");
  EXPECT_NE(Hold(), nullptr);
}

TEST_F(PostgresHeldConnectionTest, ACallWhoseConnectionEndsIsUnanswered) {
  auto connection = Hold();
  const pid_t backend = std::stoi(Backend());
  ASSERT_EQ(kill(backend, SIGSTOP), 0);
  const ReserveOp op = ReserveNamed("one");
  EXPECT_TRUE(connection->BeginReserve({&op, 1}));
  // It ends once it runs again, before it reads the statement.
  EXPECT_EQ(kill(backend, SIGTERM), 0);
  EXPECT_EQ(kill(backend, SIGCONT), 0);
  EXPECT_TRUE(AwaitReadable(*connection));
  EXPECT_EQ(ReasonOf(connection->FinishReserve().at(0).status()), Reason::kStoreUnavailable);
  connection.reset();
  MustReserve("one");
}

TEST_F(PostgresHeldConnectionTest, ACallWithoutAnAnswerEndsWithItsTime) {
  store_.reset();
  ASSERT_TRUE(schema_->Execute("DELETE FROM records").ok());
  Open(absl::Milliseconds(200));
  const auto connection = Hold();
  const pid_t backend = std::stoi(Backend());
  ASSERT_EQ(kill(backend, SIGSTOP), 0);
  const ReserveOp op = ReserveNamed("one");
  EXPECT_TRUE(connection->BeginReserve({&op, 1}));
  EXPECT_TRUE(AwaitReadable(*connection)) << "this side ends the connection";
  EXPECT_EQ(ReasonOf(connection->FinishReserve().at(0).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(kill(backend, SIGCONT), 0);
}

TEST_F(PostgresHeldConnectionTest, AnotherCallGetsTheConnectionThatItWaitsFor) {
  std::atomic<int> wanted{0};
  auto connection = Hold([&wanted] { ++wanted; });
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(store_->connections().idle, 1) << "what is held is not in use";
  std::thread other([this] { MustReserve("other"); });
  while (wanted == 0) std::this_thread::yield();
  EXPECT_EQ(Hold(), nullptr) << "the other call comes first";
  connection.reset();
  other.join();
  EXPECT_EQ(wanted, 1);
  EXPECT_NE(Hold(), nullptr);
}

TEST_F(PostgresHeldConnectionTest, AConnectionWithACallIsNotAskedFor) {
  auto connection = Hold([] { ADD_FAILURE() << "it is in use"; });
  const ReserveOp op = ReserveNamed("one");
  ASSERT_TRUE(connection->BeginReserve({&op, 1}));
  EXPECT_EQ(store_->connections().in_use, 1);
  std::thread other([this] { MustReserve("other"); });
  EXPECT_TRUE(connection->FinishReserve().at(0).ok());
  connection.reset();
  other.join();
}

}  // namespace
}  // namespace idempotency::internal
