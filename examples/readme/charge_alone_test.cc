// The README's way to guard some methods alone: clients do not retry the others.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "client/testing/fake_connection.h"
#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/server_guard/server_guard.h"

void GuardChargeAlone(idempotency::GuardOptions& options);
std::shared_ptr<grpc::Channel> ChannelThatRetriesChargeAlone(
    const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

namespace idempotency::internal {
namespace {

// Loses every answer.
class FailingPayments final : public payments::v1::Payments::Service {
 public:
  grpc::Status Charge(grpc::ServerContext* /*context*/,
                      const payments::v1::ChargeRequest* /*request*/,
                      payments::v1::ChargeReply* /*reply*/) override {
    ++charges;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  }
  grpc::Status Refund(grpc::ServerContext* /*context*/,
                      const payments::v1::RefundRequest* /*request*/,
                      payments::v1::RefundReply* /*reply*/) override {
    ++refunds;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  }

  std::atomic<int> charges = 0;
  std::atomic<int> refunds = 0;
};

TEST(ChargeAloneTest, ARefundThatFailsRunsOnce) {
  GuardOptions options;
  options.name_space = "payments";
  options.scope = SharedScope("everybody");
  GuardChargeAlone(options);
  const auto guard = ServerGuard::Create(std::make_unique<FakeConnection>(), options).value();
  FailingPayments payments;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  ASSERT_TRUE(guard->Protect<payments::v1::Payments>(builder, &payments).ok());
  ASSERT_TRUE(guard->Install(builder).ok());
  const auto server = builder.BuildAndStart();
  const auto stub = payments::v1::Payments::NewStub(ChannelThatRetriesChargeAlone(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(30);
  grpc::ClientContext refund;
  refund.set_deadline(deadline);
  payments::v1::RefundReply refunded;
  EXPECT_EQ(stub->Refund(&refund, {}, &refunded).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(payments.refunds, 1);
  // Its retries find the guard's record of the failed attempt.
  grpc::ClientContext charge;
  charge.set_deadline(deadline);
  payments::v1::ChargeReply charged;
  EXPECT_FALSE(stub->Charge(&charge, {}, &charged).ok());
  EXPECT_GE(payments.charges, 1);
  guard->Close();
  server->Shutdown();
}

}  // namespace
}  // namespace idempotency::internal
