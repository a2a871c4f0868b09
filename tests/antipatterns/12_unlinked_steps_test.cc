// Anti-pattern 12: a handler calls other services, crashes half-way, runs again, and every step
// happens once more: the second attempt's calls look like new ones, and no record shows which calls
// belong together. Here a step's key is derived from its parent's record, and its record names the
// parent.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKey[] = "order-1";
// The pause after a failure is a second.
constexpr std::chrono::seconds kPatience{30};

Call Again() {
  Call call;
  call.keys = {kKey};
  return call;
}

class UnlinkedSteps : public AntiPattern {
 protected:
  // A service that can be called as a step: it counts its executions, and is `down` until the test
  // ends that.
  struct StepService {
    std::atomic<int> effects{0};
    std::atomic<bool> down{false};
    std::unique_ptr<Probe::Stub> stub;
  };
  void ServeStep(StepService& step) {
    ProbeServer& server = Serve(
        [&step](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
          if (step.down) {
            Execution::FromContext(&context)->MarkNoEffect();
            return grpc::Status(grpc::StatusCode::UNAVAILABLE, "down");
          }
          reply.set_total(++step.effects);
          return grpc::Status::OK;
        },
        [](ProbeServer::Options& options) { options.guard.name_space = "step"; });
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> all;
    all.push_back(MakeClientInterceptor());
    step.stub = Probe::NewStub(grpc::experimental::CreateCustomChannelWithInterceptors(
        server.address(), grpc::InsecureChannelCredentials(), {}, std::move(all)));
  }

  // Calls the step from a handler. `record_id` gets the id of its record.
  static grpc::Status CallStep(StepService& step, grpc::ClientContext& context,
                               std::string* record_id = nullptr) {
    ActReply reply;
    grpc::Status status = step.stub->Act(&context, {}, &reply);
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto record = trailers.find("idempotency-record");
    if (record_id != nullptr && record != trailers.end()) {
      *record_id = std::string(record->second.data(), record->second.size());
    }
    return status;
  }

  v1::Record RecordOf(const std::string& record_id) {
    const auto store = v1::IdempotencyService::NewStub(
        grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
    v1::GetRequest request;
    request.set_record_id(record_id);
    grpc::ClientContext context;
    v1::GetResponse response;
    const grpc::Status status = store->Get(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.record();
  }
};

TEST_P(UnlinkedSteps, ARerunResumesAtTheStepThatFailed) {
  StepService payment;
  StepService inventory;
  ServeStep(payment);
  ServeStep(inventory);
  std::atomic<std::uint32_t> attempt{0};
  ProbeServer& orders = Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    Execution& execution = *Execution::FromContext(&context);
    attempt = execution.attempt();
    for (auto& [step, label] :
         {std::pair(&payment, "payment"), std::pair(&inventory, "inventory")}) {
      grpc::ClientContext call;
      EXPECT_TRUE(execution.Attach(call, label).ok());
      grpc::Status status = CallStep(*step, call);
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  });
  inventory.down = true;
  const ProbeClient client(orders.address());
  EXPECT_EQ(client.Act(kKey).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  inventory.down = false;
  const Outcome second = client.SendUntilSettled(Again(), kPatience);
  EXPECT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(attempt, 2);
  EXPECT_EQ(payment.effects, 1);
  EXPECT_EQ(inventory.effects, 1);
}

TEST_P(UnlinkedSteps, TheOnlyCallToAMethodNeedsNoLabelToBeRecognised) {
  StepService payment;
  ServeStep(payment);
  std::atomic<bool> fail{true};
  ProbeServer& orders = Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    grpc::ClientContext call;
    EXPECT_TRUE(Execution::FromContext(&context)->Attach(call).ok());
    grpc::Status status = CallStep(payment, call);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return fail ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "after the payment") : status;
  });
  const ProbeClient client(orders.address());
  EXPECT_FALSE(client.Act(kKey).status.ok());
  fail = false;
  EXPECT_TRUE(client.SendUntilSettled(Again(), kPatience).status.ok());
  EXPECT_EQ(payment.effects, 1);
}

TEST_P(UnlinkedSteps, AStepsRecordNamesItsParentButNotTheParentsKey) {
  StepService payment;
  ServeStep(payment);
  std::string step_record;
  ProbeServer& orders = Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    grpc::ClientContext call;
    EXPECT_TRUE(Execution::FromContext(&context)->Attach(call).ok());
    return CallStep(payment, call, &step_record);
  });
  const Outcome outcome = ProbeClient(orders.address()).Act("the-customers-key");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  const v1::Record record = RecordOf(step_record);
  EXPECT_EQ(record.parent().key(), outcome.Trailer("idempotency-record"));
  EXPECT_EQ(record.parent().namespace_(), "probe");
  EXPECT_EQ(record.parent().operation(), kAct);
  EXPECT_THAT(record.DebugString(), Not(HasSubstr("the-customers-key")));
}

TEST_P(UnlinkedSteps, CallsThatCannotBeDistinguishedAreNotSent) {
  StepService payment;
  ServeStep(payment);
  grpc::Status second;
  ProbeServer& orders = Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    grpc::ClientContext first_call;
    EXPECT_TRUE(Execution::FromContext(&context)->Attach(first_call).ok());
    EXPECT_TRUE(CallStep(payment, first_call).ok());
    grpc::ClientContext second_call;
    EXPECT_TRUE(Execution::FromContext(&context)->Attach(second_call).ok());
    second = CallStep(payment, second_call);
    return grpc::Status::OK;
  });
  EXPECT_TRUE(ProbeClient(orders.address()).Act(kKey).status.ok());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(second)), Reason::kDownstreamRefused);
  EXPECT_THAT(second.error_message(), HasSubstr("has no label"));
  EXPECT_EQ(payment.effects, 1);
}

TEST_P(UnlinkedSteps, TheParentsOwnKeyIsNotSentOn) {
  StepService payment;
  ServeStep(payment);
  grpc::Status sent;
  ProbeServer& orders = Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    grpc::ClientContext call;
    EXPECT_TRUE(WithKey(call, kKey).ok());
    EXPECT_TRUE(Execution::FromContext(&context)->Attach(call, "payment").ok());
    sent = CallStep(payment, call);
    return grpc::Status::OK;
  });
  EXPECT_TRUE(ProbeClient(orders.address()).Act(kKey).status.ok());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(sent)), Reason::kDownstreamRefused) << sent.error_message();
  EXPECT_EQ(payment.effects, 0);
}

INSTANTIATE_TEST_SUITE_P(BothApis, UnlinkedSteps, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
