#include "examples/payments/payments_service.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "examples/payments/ledger.h"
#include "tests/support/temp_folder.h"

namespace payments {
namespace {

// The handlers without the guard: their effect on the money.
class PaymentsServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ledger = Ledger::Open(folder_.File("ledger.sqlite"));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
    ASSERT_TRUE(ledger_->OpenAccount("alice", 1000).ok());
    Serve(absl::ZeroDuration());
  }
  void TearDown() override { server_->Shutdown(); }

  void Serve(absl::Duration charge_delay) {
    if (server_ != nullptr) server_->Shutdown();
    server_.reset();
    service_ = std::make_unique<PaymentsService>(*ledger_, charge_delay);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Payments::NewStub(server_->InProcessChannel({}));
  }

  grpc::Status Charge(const std::string& account, std::int64_t amount_cents,
                      const std::string& note = "",
                      std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    v1::ChargeRequest request;
    request.set_account(account);
    request.set_amount_cents(amount_cents);
    request.set_note(note);
    return stub_->Charge(&context, request, &charge_reply_);
  }
  grpc::Status Refund(const std::string& charge_id, std::int64_t amount_cents) {
    grpc::ClientContext context;
    v1::RefundRequest request;
    request.set_charge_id(charge_id);
    request.set_amount_cents(amount_cents);
    return stub_->Refund(&context, request, &refund_reply_);
  }

  idempotency::internal::testing::TempFolder folder_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PaymentsService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Payments::Stub> stub_;
  v1::ChargeReply charge_reply_;
  v1::RefundReply refund_reply_;
};

TEST_F(PaymentsServiceTest, WithoutTheGuardEveryCallCharges) {
  ASSERT_TRUE(Charge("alice", 300).ok());
  const std::string first = charge_reply_.charge_id();
  ASSERT_TRUE(Charge("alice", 300).ok());
  EXPECT_NE(charge_reply_.charge_id(), first);
  EXPECT_EQ(charge_reply_.balance_cents(), 400);
}

TEST_F(PaymentsServiceTest, ReportsWhyItDoesNotCharge) {
  EXPECT_EQ(Charge("alice", 1001).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Charge("nobody", 1).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Charge("alice", 0).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Charge("alice", 1, std::string(257, 'x')).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ledger_->Balance("alice").value(), 1000);
}

TEST_F(PaymentsServiceTest, RefundsAChargeByItsId) {
  ASSERT_TRUE(Charge("alice", 300).ok());
  ASSERT_TRUE(Refund(charge_reply_.charge_id(), 300).ok());
  EXPECT_EQ(refund_reply_.balance_cents(), 1000);
  EXPECT_EQ(Refund(charge_reply_.charge_id(), 1).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  for (const char* id : {"", "ch_", "ch_x", "1", "re_1", "ch_99"}) {
    EXPECT_EQ(Refund(id, 1).error_code(), grpc::StatusCode::NOT_FOUND) << id;
  }
}

TEST_F(PaymentsServiceTest, ListsWhatMoved) {
  ASSERT_TRUE(Charge("alice", 300, "rent").ok());
  ASSERT_TRUE(Refund(charge_reply_.charge_id(), 100).ok());
  grpc::ClientContext context;
  v1::ListEntriesRequest request;
  request.set_account("alice");
  v1::ListEntriesReply reply;
  ASSERT_TRUE(stub_->ListEntries(&context, request, &reply).ok());
  ASSERT_EQ(reply.entries_size(), 2);
  EXPECT_EQ(reply.entries(0).id(), refund_reply_.refund_id());
  EXPECT_EQ(reply.entries(0).amount_cents(), 100);
  EXPECT_EQ(reply.entries(1).id(), charge_reply_.charge_id());
  EXPECT_EQ(reply.entries(1).amount_cents(), -300);
  EXPECT_EQ(reply.entries(1).note(), "rent");
  EXPECT_EQ(reply.entries(1).record_id(), "");
}

TEST_F(PaymentsServiceTest, ACallerThatLeavesBeforeTheMoneyMovesIsNotCharged) {
  Serve(absl::Hours(1));
  EXPECT_EQ(Charge("alice", 300, "", std::chrono::milliseconds(100)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  server_->Shutdown();  // returns when the handler has
  EXPECT_EQ(ledger_->Balance("alice").value(), 1000);
}

}  // namespace
}  // namespace payments
