// Anti-pattern 3: a duplicate that arrives while the first call runs is run too, or gets an answer
// without a remedy. Here it is refused with a retry delay, or waits for the reply.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/grpc_status.h"
#include "tests/antipatterns/stack.h"
#include "tests/support/gate.h"

namespace idempotency::internal::testing {
namespace {

class ConcurrentDuplicates : public AntiPattern {};

TEST_P(ConcurrentDuplicates, AreRefusedWithATimeToComeBack) {
  Gate gate;
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    gate.Enter();
    reply.set_effect("one");
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  Outcome first;
  std::thread running([&] { first = client.Act("order-1"); });
  EXPECT_TRUE(gate.AwaitInside(1));

  Call again;
  again.keys = {"order-1"};
  again.timeout = std::chrono::seconds(5);  // an admitted one does not return
  const Outcome duplicate = client.Send(again);
  EXPECT_EQ(duplicate.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(duplicate.reason(), Reason::kInFlight);
  const ErrorDetails details = DetailsOf(FromGrpcStatus(duplicate.status));
  EXPECT_GT(details.retry_delay.value_or(absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_GT(std::stoi("0" + duplicate.Trailer("grpc-retry-pushback-ms")), 0);
  // Otherwise gRPC's own retries would not obey it.
  EXPECT_THAT(duplicate.initial_metadata, ::testing::IsEmpty());

  gate.Open();
  running.join();
  EXPECT_EQ(first.reply().effect(), "one");
  const Outcome retry = client.Act("order-1");
  EXPECT_EQ(retry.body, first.body);
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(gate.inside(), 1);
}

TEST_P(ConcurrentDuplicates, OrWaitForTheReply) {
  constexpr int kDuplicates = 5;
  Gate gate;
  const auto reserves = std::make_shared<ConnectionGate>();
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest& request, ActReply& reply) {
        if (request.account() == "alice") gate.Enter();
        reply.set_effect("one");
        return grpc::Status::OK;
      },
      [&](ProbeServer::Options& options) {
        MethodPolicy policy;
        policy.in_flight = MethodPolicy::InFlight::kWait;
        policy.max_wait = absl::Seconds(20);
        options.guard.methods[kAct].policy = policy;
        options.gate = reserves;
      });
  const ProbeClient client(server.address());
  Mutex mutex;
  std::vector<Outcome> outcomes;
  std::vector<std::thread> callers;
  const auto call = [&] {
    Outcome outcome = client.Act("order-2");
    MutexLock lock(mutex);
    outcomes.push_back(std::move(outcome));
  };
  callers.emplace_back(call);
  EXPECT_TRUE(gate.AwaitInside(1));
  reserves->HoldReserves();
  for (int i = 0; i < kDuplicates; ++i) callers.emplace_back(call);
  EXPECT_TRUE(reserves->AwaitHeld(kDuplicates));
  reserves->OpenAll();
  // Later requests are answered later: once these have their replies, the store has received the
  // duplicates, and refused those that may not wait.
  for (int i = 0; i < 2 * kDuplicates; ++i) {
    Call other;
    other.account = "bob";
    other.keys = {absl::StrCat("other-", i)};
    EXPECT_TRUE(client.Send(other).status.ok());
  }
  gate.Open();
  for (std::thread& caller : callers) caller.join();
  ASSERT_EQ(outcomes.size(), 1 + kDuplicates);
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    EXPECT_EQ(outcome.body, outcomes[0].body);
  }
  EXPECT_EQ(gate.inside(), 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, ConcurrentDuplicates,
                         ::testing::Values(Api::kSync, Api::kCallback), ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
