// Anti-pattern 7: a process crashes between "pending" and "done", and the key is blocked for ever;
// or a timeout releases it while the first process still works. Here a lease ends the reservation
// of a crashed process, and heartbeats keep that of a running one.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/antipatterns/stack.h"
#include "tests/support/gate.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kKey[] = "order-1";

class OrphanedPending : public AntiPattern {
 protected:
  // The remains of a guarded server that crashes in the handler: a reservation without an owner.
  // Returns its token.
  std::string ReserveAndDie(std::chrono::milliseconds lease) {
    ActRequest request;
    request.set_account("alice");
    request.set_amount(1);
    v1::ReserveRequest reserve;
    *reserve.mutable_record_key() = RecordKeyOfAct();
    *reserve.add_fingerprints() = ToProto(FingerprintV1({kAct, request}));
    reserve.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
    reserve.mutable_lease()->set_nanos(static_cast<int>(lease.count() * 1000000));
    grpc::ClientContext context;
    v1::ReserveResponse response;
    const grpc::Status status = Store()->Reserve(&context, reserve, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(response.has_reserved()) << response.DebugString();
    return response.reserved().reservation_token();
  }

  // The Complete that it would send if it was slow and had not crashed.
  grpc::Status CompleteLate(const std::string& token) {
    v1::CompleteRequest complete;
    *complete.mutable_record_key() = RecordKeyOfAct();
    complete.set_reservation_token(token);
    complete.mutable_reply()->set_message("of the first attempt");
    grpc::ClientContext context;
    v1::CompleteResponse response;
    return Store()->Complete(&context, complete, &response);
  }

 private:
  static v1::RecordKey RecordKeyOfAct() {
    v1::RecordKey record_key;
    record_key.set_namespace_("probe");
    record_key.set_scope("everybody");
    record_key.set_operation(kAct);
    record_key.set_key(kKey);
    return record_key;
  }
  std::unique_ptr<v1::IdempotencyService::Stub> Store() {
    return v1::IdempotencyService::NewStub(
        grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
  }
};

TEST_P(OrphanedPending, AReservationOfACrashedServerIsTakenOver) {
  std::atomic<std::uint32_t> attempt{0};
  ProbeServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        attempt = Execution::FromContext(&context)->attempt();
        reply.set_effect("second attempt");
        return grpc::Status::OK;
      });
  ReserveAndDie(std::chrono::milliseconds(700));
  const ProbeClient client(server.address());
  EXPECT_EQ(client.Act(kKey).reason(), Reason::kInFlight);

  Call call;
  call.keys = {kKey};
  const Outcome outcome = client.SendUntilSettled(call, std::chrono::seconds(10));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.reply().effect(), "second attempt");
  EXPECT_EQ(attempt, 2);
}

TEST_P(OrphanedPending, AnAttemptThatLostItsReservationCannotWrite) {
  std::string lost_token;
  grpc::Status late;
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    late = CompleteLate(lost_token);
    reply.set_effect("second attempt");
    return grpc::Status::OK;
  });
  lost_token = ReserveAndDie(std::chrono::milliseconds(50));
  const ProbeClient client(server.address());
  Call call;
  call.keys = {kKey};
  const Outcome outcome = client.SendUntilSettled(call, std::chrono::seconds(10));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(late)), Reason::kReservationLost) << late.error_message();
  const Outcome retry = client.Act(kKey);
  EXPECT_EQ(retry.reply().effect(), "second attempt");
  EXPECT_TRUE(retry.replayed());
}

TEST_P(OrphanedPending, ASlowHandlerKeepsItsReservation) {
  Gate gate;
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        gate.Enter();
        reply.set_effect(Execution::FromContext(&context)->lost() ? "lost" : "held");
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        MethodPolicy policy;
        policy.lease = absl::Milliseconds(400);
        options.guard.methods[kAct].policy = policy;
      });
  const ProbeClient client(server.address());
  Outcome first;
  std::thread running([&] { first = client.Act(kKey); });
  EXPECT_TRUE(gate.AwaitInside(1));
  // After three leases a duplicate still gets IN_FLIGHT: the first one still works.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
  std::optional<Reason> reason = Reason::kInFlight;
  while (reason == Reason::kInFlight && std::chrono::steady_clock::now() < until) {
    Call duplicate;
    duplicate.keys = {kKey};
    duplicate.timeout = std::chrono::seconds(5);  // an admitted one does not return
    reason = client.Send(duplicate).reason();
  }
  EXPECT_EQ(reason, Reason::kInFlight);
  gate.Open();
  running.join();
  EXPECT_EQ(first.reply().effect(), "held");
  EXPECT_EQ(gate.inside(), 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, OrphanedPending, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
