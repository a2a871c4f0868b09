// Anti-pattern 10: the effect is committed in one transaction and the record of it in another, and
// a crash, a slow attempt or an error falls between the two. Here the handler commits its reply
// with its effects, as one row of the completion ledger, and the committed row decides.
#include <sqlite3.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/ledger/sqlite_ledger.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/antipatterns/stack.h"
#include "tests/support/gate.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kKey[] = "order-1";
constexpr int kPrice = 100;
constexpr std::chrono::seconds kLong{20};

// A connection to the application's own database.
class BankSession {
 public:
  explicit BankSession(const std::string& path) {
    sqlite3* opened = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &opened), SQLITE_OK);
    database_.reset(opened);
    sqlite3_busy_timeout(opened, 15000);
  }

  bool Run(const std::string& sql) {
    return sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }
  int Number(const std::string& sql) {
    int number = -1;
    const auto keep = [](void* into, int /*columns*/, char** values, char**) {
      *static_cast<int*>(into) = std::stoi(values[0]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(get(), sql.c_str(), keep, &number, nullptr), SQLITE_OK);
    return number;
  }
  sqlite3* get() { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

class EffectAndRecordApart : public AntiPattern {
 protected:
  void OpenAccount(int balance) {
    std::ifstream migration(
        absl::StrCat(IDEMPOTENCY_LEDGER_MIGRATIONS, "/sqlite/001_completions.up.sql"));
    const std::string ledger{std::istreambuf_iterator<char>(migration),
                             std::istreambuf_iterator<char>()};
    ASSERT_TRUE(BankSession(bank_).Run(absl::StrCat(
        "PRAGMA journal_mode = WAL;", ledger,
        "CREATE TABLE account (balance INTEGER NOT NULL);"
        // No key: the test must see a second effect, and the database must not refuse it.
        "CREATE TABLE charges (attempt INTEGER NOT NULL); INSERT INTO account VALUES (",
        balance, ")")));
  }

  ProbeServer& ServeBank(ProbeHandler handler,
                         const std::function<void(ProbeServer::Options&)>& change = nullptr) {
    return Serve(std::move(handler), [&](ProbeServer::Options& options) {
      options.guard.ledger = SqliteLedger::Open(bank_).value();
      if (change) change(options);
    });
  }
  // For a server whose attempts are taken over while they still run.
  static void ShortLease(ProbeServer::Options& options) {
    MethodPolicy& policy = options.guard.methods[kAct].MutableReplacementPolicy();
    policy.lease = absl::Milliseconds(700);
    policy.max_lease = policy.lease;
  }

  // The handler's work that charges the price: effect and reply in one transaction.
  grpc::Status Charge(grpc::ServerContextBase& context, ActReply& reply,
                      const std::function<void()>& before_commit = nullptr) {
    ++runs_;
    Execution& execution = *Execution::FromContext(&context);
    BankSession session(bank_);
    if (!session.Run("BEGIN IMMEDIATE")) return {grpc::StatusCode::UNAVAILABLE, "busy"};
    if (session.Number("SELECT balance FROM account") < kPrice) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "no money"};
    }
    EXPECT_TRUE(
        session.Run(absl::StrCat("UPDATE account SET balance = balance - ", kPrice,
                                 "; INSERT INTO charges VALUES (", execution.attempt(), ")")));
    reply.set_effect(absl::StrCat("charged by attempt ", execution.attempt()));
    if (const absl::Status recorded = execution.RecordInTransaction(session.get(), reply);
        !recorded.ok()) {
      return ToGrpcStatus(recorded);
    }
    if (before_commit) before_commit();
    if (!session.Run("COMMIT")) return {grpc::StatusCode::UNAVAILABLE, "not committed"};
    return grpc::Status::OK;
  }
  int Charges() { return BankSession(bank_).Number("SELECT count(*) FROM charges"); }

  static Outcome Settle(ProbeServer& server) {
    Call call;
    call.keys = {kKey};
    return ProbeClient(server.address()).SendUntilSettled(call, kLong);
  }

  const std::string bank_ = folder_.File("bank.db");
  std::atomic<int> runs_{0};
};

TEST_P(EffectAndRecordApart, AnAttemptThatWasOnlySlowDoesNotChargeBesideTheNext) {
  OpenAccount(10 * kPrice);
  Gate slow;
  ProbeServer& first =
      ServeBank([&](grpc::ServerContextBase& context, const ActRequest&,
                    ActReply& reply) { return Charge(context, reply, [&] { slow.Enter(); }); },
                ShortLease);
  Gate second_runs;
  second_runs.Open();
  ProbeServer& second =
      ServeBank([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        second_runs.Enter();
        return Charge(context, reply);
      });

  auto slow_one = std::async(std::launch::async, [&] { return Settle(first); });
  EXPECT_TRUE(slow.AwaitInside(1));
  auto next_one = std::async(std::launch::async, [&] { return Settle(second); });
  // Its ledger lookup found no row: the first one is not committed yet.
  EXPECT_TRUE(second_runs.AwaitInside(1));
  slow.Open();
  const Outcome outcome = slow_one.get();
  const Outcome other = next_one.get();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_TRUE(other.status.ok()) << other.status.error_message();
  EXPECT_EQ(Charges(), 1);
  EXPECT_EQ(outcome.reply().effect(), "charged by attempt 1");
  EXPECT_EQ(outcome.body, other.body);
}

TEST_P(EffectAndRecordApart, WhatWasCommittedBeforeACrashDoesNotRunAgain) {
  // Enough for one charge: a second attempt would find no money, and report it.
  OpenAccount(kPrice);
  const auto gate = std::make_shared<ConnectionGate>();
  const auto charge = [&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
    return Charge(context, reply);
  };
  ProbeServer& dying = ServeBank(charge, [&](ProbeServer::Options& options) {
    ShortLease(options);
    options.gate = gate;
  });
  // idempotencyd never receives its end.
  gate->FailCompletes(MakeError(Reason::kReservationLost, "the process is dead"));
  EXPECT_FALSE(ProbeClient(dying.address()).Act(kKey).status.ok());
  EXPECT_EQ(Charges(), 1);

  const Outcome outcome = Settle(ServeBank(charge));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_TRUE(outcome.replayed());
  EXPECT_EQ(outcome.reply().effect(), "charged by attempt 1");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(Charges(), 1);
}

TEST_P(EffectAndRecordApart, AFailureAfterTheCommitIsNotTheOutcome) {
  OpenAccount(10 * kPrice);
  ProbeServer& server =
      ServeBank([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        const grpc::Status charged = Charge(context, reply);
        // A code that is recorded: no caller would ever get the charge's reply.
        return charged.ok() ? grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no mail address")
                            : charged;
      });
  const Outcome outcome = Settle(server);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.reply().effect(), "charged by attempt 1");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(Charges(), 1);
}

TEST_P(EffectAndRecordApart, AReplyWithoutItsEffectIsNotRecorded) {
  OpenAccount(10 * kPrice);
  std::atomic<bool> crash{true};
  ProbeServer& server = ServeBank([&](grpc::ServerContextBase& context, const ActRequest&,
                                      ActReply& reply) {
    if (!crash.exchange(false)) return Charge(context, reply);
    BankSession session(bank_);
    EXPECT_TRUE(session.Run("BEGIN IMMEDIATE; INSERT INTO charges VALUES (1)"));
    reply.set_effect("never committed");
    EXPECT_TRUE(Execution::FromContext(&context)->RecordInTransaction(session.get(), reply).ok());
    EXPECT_TRUE(session.Run("ROLLBACK"));
    return grpc::Status::OK;
  });
  EXPECT_EQ(ProbeClient(server.address()).Act(kKey).reason(), Reason::kOutcomeNotRecorded);
  const Outcome outcome = Settle(server);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.reply().effect(), "charged by attempt 2");
  EXPECT_EQ(Charges(), 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, EffectAndRecordApart,
                         ::testing::Values(Api::kSync, Api::kCallback), ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
