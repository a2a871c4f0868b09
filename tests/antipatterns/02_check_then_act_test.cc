// Anti-pattern 2: check whether the key exists, then act. Two calls that check at the same time
// both act. Here Reserve is one atomic step.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class CheckThenAct : public AntiPattern {};

TEST_P(CheckThenAct, CallsAtTheSameTimeRunOnce) {
  constexpr int kRounds = 20;
  constexpr int kCallers = 12;
  std::atomic<int> runs{0};
  const ProbeHandler handler = [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    reply.set_total(++runs);
    return grpc::Status::OK;
  };
  ProbeServer& one = Serve(handler);
  ProbeServer& other = Serve(handler);

  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> ready{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        const ProbeClient client(c % 2 == 0 ? one.address() : other.address());
        client.channel()->WaitForConnected(std::chrono::system_clock::now() +
                                           std::chrono::seconds(10));
        ++ready;
        while (ready < kCallers) std::this_thread::yield();
        const Outcome outcome = client.Act(absl::StrCat("round-", round));
        EXPECT_TRUE(outcome.status.ok() || outcome.reason() == Reason::kInFlight)
            << outcome.status.error_message();
      });
    }
    for (std::thread& caller : callers) caller.join();
    ASSERT_EQ(runs, round + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(BothApis, CheckThenAct, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
