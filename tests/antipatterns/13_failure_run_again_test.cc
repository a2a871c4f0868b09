// Anti-pattern 13: a failure that proves nothing is treated as "nothing happened", and the client's
// retries run the handler again and again. Here the application chooses the consequence of such a
// failure, and it is never another run at once.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/client_interceptor/retry_policy.h"
#include "grpc_idempotency/grpc_status.h"
#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

constexpr auto kTakeOver = MethodPolicy::OnUnknownOutcome::kTakeOver;
constexpr auto kRequireRecovery = MethodPolicy::OnUnknownOutcome::kRequireRecovery;

class FailureRunAgain : public AntiPattern {
 protected:
  // A shop whose handler enters the order and then fails, in every attempt.
  ProbeServer& Shop(MethodPolicy::OnUnknownOutcome choice) {
    return Serve(
        [this](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
          ++orders_;
          return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer got lost");
        },
        [this, choice](ProbeServer::Options& options) {
          options.guard.on_unknown_outcome = choice;
          options.guard.hooks.on_verdict = [this](const VerdictEvent&) { ++verdicts_; };
          options.guard.hooks.on_recorded = [this](const RecordedEvent&) { ++executions_; };
        });
  }

  // One call of a client as users configure it: with the interceptor, and gRPC's own retries.
  static grpc::Status Order(const ProbeServer& server, const RetryPolicy& retries = {},
                            const std::string& account = "alice") {
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        interceptors;
    interceptors.push_back(MakeClientInterceptor());
    const auto stub = Probe::NewStub(grpc::experimental::CreateCustomChannelWithInterceptors(
        server.address(), grpc::InsecureChannelCredentials(),
        RetryingChannelArguments(retries, {"idempotency.testing.Probe"}), std::move(interceptors)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    ActRequest request;
    request.set_account(account);
    ActReply reply;
    return stub->Act(&context, request, &reply);
  }

  std::atomic<int> orders_{0};
  std::atomic<int> verdicts_{0};
  std::atomic<int> executions_{0};
};

TEST_P(FailureRunAgain, WithoutAChoiceNoServerStarts) {
  GuardOptions options = ProbeServer::WithoutReplayCache();
  options.name_space = "probe";
  options.scope = SharedScope("everybody");
  options.on_unknown_outcome = std::nullopt;
  const auto guard =
      ServerGuard::Create(
          grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()), options)
          .value();
  const auto service = ProbeService::Make(GetParam(), nullptr);
  grpc::ServerBuilder builder;
  ASSERT_TRUE(guard->Protect<Probe>(builder, service->service()).ok());
  const absl::Status refused = guard->Install(builder);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part :
       {"/idempotency.testing.Probe/Act", "TAKE_OVER", "completion ledger", "recovery handler"}) {
    EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr(part));
  }
}

TEST_P(FailureRunAgain, RetriesMakeOneOrderAndStopWithTheReason) {
  const grpc::Status status = Order(Shop(kRequireRecovery));
  EXPECT_EQ(orders_, 1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const absl::Status refusal = FromGrpcStatus(status);
  EXPECT_EQ(ReasonOf(refusal), Reason::kOutcomeUnknown);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("the handler answered UNAVAILABLE"));
  auto metadata = DetailsOf(refusal).metadata;
  EXPECT_EQ(metadata["cause"], "RELEASED");
  EXPECT_EQ(metadata["reason"], "the handler answered UNAVAILABLE");
  EXPECT_EQ(metadata["attempt"], "1");
  EXPECT_NE(metadata["since"], "");
}

TEST_P(FailureRunAgain, RetriesStopForEveryRetryPolicyOfTheClient) {
  RetryPolicy retries;
  retries.retryable.insert(grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Order(Shop(kRequireRecovery), retries).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(orders_, 1);
  EXPECT_EQ(verdicts_, 2) << "the first try, and one retry, whose pushback forbids another";
}

TEST_P(FailureRunAgain, AHandlerThatThrewIsNotRunAgain) {
  ProbeServer& shop = Shop(kRequireRecovery);
  RetryPolicy retries;
  retries.retryable.insert(
      {grpc::StatusCode::UNKNOWN, grpc::StatusCode::UNIMPLEMENTED, grpc::StatusCode::INTERNAL});
  const grpc::Status status = Order(shop, retries, kThrowing);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kOutcomeUnknown);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("or threw"));
  EXPECT_EQ(executions_, 1);
}

TEST_P(FailureRunAgain, WhereASecondExecutionIsAcceptableRetriesMakeOneMoreAtMost) {
  const grpc::Status status = Order(Shop(kTakeOver));
  EXPECT_FALSE(status.ok());
  EXPECT_GE(orders_, 1);
  EXPECT_LE(orders_, 2) << "the pause after a failure outlasts a client's five tries";
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kInFlight);
}

INSTANTIATE_TEST_SUITE_P(BothApis, FailureRunAgain, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
