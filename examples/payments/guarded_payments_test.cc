// The handlers behind the guard and a real idempotencyd.
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "examples/payments/ledger.h"
#include "examples/payments/outcome.h"
#include "examples/payments/payments_service.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/client/sqlite_key_store.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_folder.h"

namespace payments {
namespace {

class GuardedPaymentsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ledger = Ledger::Open(folder_.File("ledger.sqlite"));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
    ASSERT_TRUE(ledger_->OpenAccount("alice", 1000).ok());
    service_ = std::make_unique<PaymentsService>(*ledger_);

    idempotency::GuardOptions options;
    options.name_space = "payments";
    options.scope = idempotency::SharedScope("test");
    auto guard = idempotency::ServerGuard::Create(
        grpc::CreateCustomChannel(daemon_.address(), grpc::InsecureChannelCredentials(),
                                  idempotency::IdempotencydChannelArguments()),
        options);
    ASSERT_TRUE(guard.ok()) << guard.status();
    guard_ = *std::move(guard);
    grpc::ServerBuilder builder;
    ASSERT_TRUE(guard_->Protect<v1::Payments>(builder, service_.get()).ok());
    ASSERT_TRUE(guard_->Install(builder).ok());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Payments::NewStub(server_->InProcessChannel({}));
  }
  void TearDown() override {
    guard_->Close();
    server_->Shutdown();
  }

  Outcome Charge(const std::string& key, std::int64_t amount_cents) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!key.empty()) {
      EXPECT_TRUE(idempotency::WithKey(context, key).ok());
    }
    v1::ChargeRequest request;
    request.set_account("alice");
    request.set_amount_cents(amount_cents);
    reply_.Clear();
    const grpc::Status status = stub_->Charge(&context, request, &reply_);
    return OutcomeOf(status, context);
  }
  std::int64_t Balance() { return ledger_->Balance("alice").value_or(-1); }

  idempotency::internal::testing::TempFolder folder_;
  idempotency::internal::testing::DaemonProcess daemon_{"sqlite:" + folder_.File("records.sqlite")};
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PaymentsService> service_;
  std::unique_ptr<idempotency::ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Payments::Stub> stub_;
  v1::ChargeReply reply_;
};

TEST_F(GuardedPaymentsTest, ARetriedChargeMovesMoneyOnce) {
  const Outcome first = Charge("rent", 300);
  ASSERT_TRUE(first.status.ok()) << ToLine(first, "");
  EXPECT_FALSE(first.replayed);
  const std::string charge_id = reply_.charge_id();

  const Outcome retry = Charge("rent", 300);
  ASSERT_TRUE(retry.status.ok()) << ToLine(retry, "");
  EXPECT_TRUE(retry.replayed);
  EXPECT_EQ(retry.record_id, first.record_id);
  EXPECT_EQ(reply_.charge_id(), charge_id);
  EXPECT_EQ(Balance(), 700);

  // The ledger has the record that moved the money.
  const auto entries = ledger_->Entries("alice", 10).value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].origin.record_id, first.record_id);
  EXPECT_EQ(entries[0].origin.attempt, 1u);
}

TEST_F(GuardedPaymentsTest, ADeclinedChargeStaysDeclinedWhenMoneyHasCome) {
  const auto earlier = ledger_->Charge("alice", 100, "", {});
  ASSERT_TRUE(earlier.ok());
  EXPECT_EQ(Charge("yacht", 950).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(ledger_->Refund(earlier->entry_id, 100, "", {}).ok());
  const Outcome retry = Charge("yacht", 950);
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(retry.reason, "");
  EXPECT_TRUE(retry.replayed);
  EXPECT_EQ(Balance(), 1000);
}

TEST_F(GuardedPaymentsTest, RefusesWhatCouldChargeTwice) {
  EXPECT_EQ(Charge("", 300).reason, "KEY_MISSING");
  ASSERT_TRUE(Charge("rent", 300).status.ok());
  EXPECT_EQ(Charge("rent", 301).reason, "KEY_REUSED");
  EXPECT_EQ(Balance(), 700);
}

// Each try waits for the guard's verdict until its timeout, so a few are enough.
TEST_F(GuardedPaymentsTest, ACallOutlivesADaemonThatIsAway) {
  daemon_.Kill();
  idempotency::CallRetries retries;
  retries.max_backoff = absl::Milliseconds(200);
  v1::ChargeRequest request;
  request.set_account("alice");
  request.set_amount_cents(300);
  int tries = 0;
  const grpc::Status status = idempotency::CallWithRetries(
      "rent", idempotency::DeadlineIn(absl::Seconds(60)),
      [&](grpc::ClientContext& context) {
        if (++tries == 3) daemon_.Restart();
        return stub_->Charge(&context, request, &reply_);
      },
      retries);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_GE(tries, 3);
  EXPECT_EQ(Balance(), 700);
}

// The guard's trailers prove that it recorded the refusal.
TEST_F(GuardedPaymentsTest, ADeclinedChargeIsTheOutcomeOfItsWork) {
  auto keys = idempotency::SqliteKeyStore::Open(folder_.File("keys.sqlite")).value();
  v1::ChargeRequest request;
  request.set_account("alice");
  request.set_amount_cents(2000);
  for (const bool settles : {false, true}) {
    int settled = 0;
    const grpc::Status status = idempotency::CallWithRetries(
        *keys, "yacht/charge", idempotency::DeadlineIn(absl::Seconds(60)), [] { return false; },
        [&](grpc::ClientContext& context) { return stub_->Charge(&context, request, &reply_); },
        [&](const grpc::Status&) {
          ++settled;
          return settles;
        });
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(settled, 1) << (settles ? "the replay" : "the first reply");
    EXPECT_EQ(keys->Unfinished().value().size(), settles ? 0u : 1u);
  }
}

// The reply is lost, and the client process ends with it.
TEST_F(GuardedPaymentsTest, WorkOfAClientThatCrashedIsPaidOnce) {
  v1::ChargeRequest request;
  request.set_account("alice");
  request.set_amount_cents(300);
  bool answer_arrives = false;
  int marked = 0;
  // A client process from its start: only the file is left.
  const auto run_client = [&] {
    const auto keys = idempotency::SqliteKeyStore::Open(folder_.File("keys.sqlite")).value();
    idempotency::CallRetries retries;
    idempotency::RetryBudgetOptions no_retries;
    no_retries.max_tokens = 0;
    idempotency::RetryBudget budget(no_retries);
    retries.budget = &budget;
    const grpc::Status status = idempotency::CallWithRetries(
        *keys, "order-42/charge", idempotency::DeadlineIn(absl::Seconds(60)),
        [&] { return marked > 0; },
        [&](grpc::ClientContext& context) {
          const grpc::Status answer = stub_->Charge(&context, request, &reply_);
          EXPECT_TRUE(answer.ok()) << answer.error_message();
          return answer_arrives ? answer : grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
        },
        [&](const grpc::Status&) { return ++marked > 0; }, retries);
    EXPECT_EQ(keys->Unfinished().value().size(), answer_arrives ? 0u : 1u);
    return status.ok();
  };
  EXPECT_FALSE(run_client());
  const std::string charge_id = reply_.charge_id();
  EXPECT_EQ(marked, 0);
  answer_arrives = true;
  EXPECT_TRUE(run_client());
  EXPECT_EQ(reply_.charge_id(), charge_id);
  EXPECT_EQ(marked, 1);
  EXPECT_EQ(Balance(), 700);
}

TEST_F(GuardedPaymentsTest, ReadsNeedNoKey) {
  grpc::ClientContext context;
  v1::GetBalanceRequest request;
  request.set_account("alice");
  v1::GetBalanceReply reply;
  EXPECT_TRUE(stub_->GetBalance(&context, request, &reply).ok());
  EXPECT_EQ(reply.balance_cents(), 1000);
}

}  // namespace
}  // namespace payments
