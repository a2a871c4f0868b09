// docs/workflows.md: a recorded refusal of a step ends the operation; every other failure leaves it
// open.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "interceptors/server/testing/guarded_till.h"
#include "testdata/till.grpc.pb.h"

grpc::Status RefundAll(idempotency::Execution& execution, payments::v1::Payments::Stub& payments,
                       const payments::v1::ListEntriesReply& charges);
grpc::Status Charge(idempotency::Execution& execution, payments::v1::Payments::Stub& payments,
                    const payments::v1::ChargeRequest& request, payments::v1::ChargeReply& reply);

namespace idempotency::internal {
namespace {

using grpc::StatusCode;

// Each call gets the answer, with the entries of a guard if it is recorded.
class Payments final : public payments::v1::Payments::Service {
 public:
  grpc::Status Charge(grpc::ServerContext* context, const payments::v1::ChargeRequest*,
                      payments::v1::ChargeReply*) override {
    return Answer(*context);
  }
  grpc::Status Refund(grpc::ServerContext* context, const payments::v1::RefundRequest*,
                      payments::v1::RefundReply*) override {
    ++refunds;
    return Answer(*context);
  }

  grpc::Status answer;
  bool recorded = false;
  int refunds = 0;

 private:
  grpc::Status Answer(grpc::ServerContext& context) const {
    if (recorded) {
      context.AddTrailingMetadata("idempotency-record", "r");
      context.AddTrailingMetadata("idempotency-expires", "2026-12-01T00:00:00Z");
    }
    return answer;
  }
};

class Till final : public testdata::Till::Service {
 public:
  grpc::Status Charge(grpc::ServerContext* context, const testdata::ChargeRequest*,
                      testdata::ChargeReply*) override {
    step(*Execution::FromContext(context));
    return grpc::Status::OK;
  }
  std::function<void(Execution&)> step;
};

class WorkflowStepsTest : public GuardedTill {
 protected:
  using Step = std::function<grpc::Status(Execution&, payments::v1::Payments::Stub&)>;

  WorkflowStepsTest() {
    options_.name_space = "orders";
    grpc::ServerBuilder builder;
    builder.RegisterService(&payments_);
    steps_ = builder.BuildAndStart();
  }
  ~WorkflowStepsTest() override { steps_->Shutdown(); }

  void SetUp() override { Serve(till_); }

  // The status of a step within a guarded call.
  StatusCode Run(const grpc::Status& answer, bool recorded, const Step& step) {
    payments_.answer = answer;
    payments_.recorded = recorded;
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        interceptors;
    interceptors.push_back(MakeClientInterceptor());
    const auto stub =
        payments::v1::Payments::NewStub(steps_->experimental().InProcessChannelWithInterceptors(
            grpc::ChannelArguments(), std::move(interceptors)));
    grpc::Status ended(StatusCode::UNKNOWN, "did not run");
    till_.step = [&](Execution& execution) { ended = step(execution, *stub); };
    grpc::ClientContext context;
    context.AddMetadata(std::string(kKeyMetadata), "order-" + std::to_string(++orders_));
    testdata::ChargeReply reply;
    EXPECT_TRUE(stub_->Charge(&context, {}, &reply).ok());
    return ended.error_code();
  }

  static grpc::Status RefundOne(Execution& execution, payments::v1::Payments::Stub& stub) {
    payments::v1::ListEntriesReply charges;
    charges.add_entries()->set_id("c-1");
    return RefundAll(execution, stub, charges);
  }
  static grpc::Status ChargeOne(Execution& execution, payments::v1::Payments::Stub& stub) {
    payments::v1::ChargeReply reply;
    return ::Charge(execution, stub, payments::v1::ChargeRequest(), reply);
  }

  Payments payments_;
  Till till_;
  std::unique_ptr<grpc::Server> steps_;
  int orders_ = 0;
};

TEST_F(WorkflowStepsTest, ARecordedRefusalEndsTheOperation) {
  const grpc::Status refused(StatusCode::NOT_FOUND, "no such account");
  for (const Step& step : {Step(RefundOne), Step(ChargeOne)}) {
    EXPECT_EQ(Run(grpc::Status::OK, true, step), StatusCode::OK);
    EXPECT_EQ(Run(refused, true, step), StatusCode::FAILED_PRECONDITION);
  }
}

TEST_F(WorkflowStepsTest, ARefusedRefundStopsNoOther) {
  const auto refund_two = [](Execution& execution, payments::v1::Payments::Stub& stub) {
    payments::v1::ListEntriesReply charges;
    charges.add_entries()->set_id("c-1");
    charges.add_entries()->set_id("c-2");
    return RefundAll(execution, stub, charges);
  };
  const grpc::Status refused(StatusCode::NOT_FOUND, "no such account");
  EXPECT_EQ(Run(refused, true, refund_two), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(payments_.refunds, 2);
}

TEST_F(WorkflowStepsTest, AnyOtherFailureLeavesItOpen) {
  for (const StatusCode code : {StatusCode::NOT_FOUND, StatusCode::FAILED_PRECONDITION}) {
    for (const Step& step : {Step(RefundOne), Step(ChargeOne)}) {
      EXPECT_EQ(Run(grpc::Status(code, "by a proxy"), false, step), StatusCode::UNAVAILABLE);
    }
  }
}

}  // namespace
}  // namespace idempotency::internal
