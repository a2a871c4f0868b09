// Anti-pattern 7: a process dies between "pending" and "done", and the key is
// stuck for ever; or a timeout gives it away while the first one still works.
// Here a lease ends what has died, and a heartbeat keeps what lives.
#include <atomic>
#include <string>
#include <thread>

#include "core/fingerprint.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "interceptors/server/execution.h"
#include "tests/antipatterns/stack.h"
#include "tests/support/gate.h"

namespace idempotency::testing {
namespace {

constexpr char kKey[] = "order-1";

class OrphanedPending : public AntiPattern {
 protected:
  // What a guarded server leaves behind that dies in the handler: a
  // reservation that nobody completes.
  void ReserveAndDie(std::chrono::milliseconds lease) {
    ActRequest request;
    request.set_account("alice");
    request.set_amount(1);
    v1::ReserveRequest reserve;
    reserve.mutable_record_key()->set_namespace_("probe");
    reserve.mutable_record_key()->set_scope("everybody");
    reserve.mutable_record_key()->set_operation(kAct);
    reserve.mutable_record_key()->set_key(kKey);
    *reserve.add_fingerprints() = ToProto(FingerprintV1(kAct, request));
    reserve.mutable_lease()->set_nanos(static_cast<int>(lease.count() * 1000000));
    auto stub = v1::IdempotencyService::NewStub(
        grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::ReserveResponse response;
    const grpc::Status status = stub->Reserve(&context, reserve, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_TRUE(response.has_reserved()) << response.DebugString();
  }
};

TEST_P(OrphanedPending, AReservationOfTheDeadIsTakenOver) {
  std::atomic<std::uint32_t> attempt{0};
  GuardedServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        attempt = Execution::Of(&context)->attempt();
        reply.set_effect("second attempt");
        return grpc::Status::OK;
      });
  ReserveAndDie(std::chrono::milliseconds(700));
  const ProbeClient client(server.address());
  EXPECT_EQ(client.Act(kKey).reason(), Reason::kInFlight);

  Call call;
  call.keys = {kKey};
  const Outcome outcome = client.SendUntilSettled(call, std::chrono::seconds(20));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.reply().effect(), "second attempt");
  EXPECT_EQ(attempt, 2);
}

TEST_P(OrphanedPending, ASlowHandlerKeepsItsReservation) {
  Gate gate;
  GuardedServer& server = Serve(
      [&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        gate.Enter();
        reply.set_effect(Execution::Of(&context)->lost() ? "lost" : "held");
        return grpc::Status::OK;
      },
      [](GuardedServer::Options& options) {
        MethodPolicy policy;
        policy.lease = absl::Milliseconds(400);
        options.guard.policies[kAct] = policy;
      });
  const ProbeClient client(server.address());
  Outcome first;
  std::thread running([&] { first = client.Act(kKey); });
  ASSERT_TRUE(gate.AwaitInside(1));
  // Three leases long, a duplicate is told that the first one still works.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_EQ(client.Act(kKey).reason(), Reason::kInFlight);
  }
  gate.Open();
  running.join();
  EXPECT_EQ(first.reply().effect(), "held");
  EXPECT_EQ(gate.inside(), 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, OrphanedPending, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::testing
