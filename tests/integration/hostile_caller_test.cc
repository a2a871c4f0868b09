// One caller sends invalid bytes; the valid calls of others are not affected.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"
#include "tests/support/gate.h"
#include "tests/support/probe_client.h"
#include "tests/support/raw_http2_client.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
// Far longer than a call takes, and far shorter than the lease and the wait.
constexpr std::chrono::seconds kInTime(15);

// In the form that W3C Trace Context allows for versions after the first, but for the bytes at the
// end: none of them is UTF-8.
std::vector<std::string> HostileTraces() {
  const std::string begin = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-";
  return {begin + "\xff", begin + "\xc3", begin + "more\x80", begin + "\xed\xa0\x80"};
}

std::string SomeRequest(const std::string& account) {
  ActRequest request;
  request.set_account(account);
  request.set_amount(1);
  return request.SerializeAsString();
}

class HostileCaller : public GuardFixture {
 protected:
  RawHttp2Client::End CallWith(const std::string& key, const std::string& trace) {
    if (raw_ == nullptr) raw_ = std::make_unique<RawHttp2Client>(server_->address());
    return raw_->Call(kAct, {{"idempotency-key", key}, {"traceparent", trace}},
                      SomeRequest("alice"));
  }

  std::unique_ptr<RawHttp2Client> raw_;
};

TEST_P(HostileCaller, LosesItsTraceAndNothingElse) {
  const ProbeClient client(Serve(Counting()).address());
  int calls = 0;
  for (const std::string& trace : HostileTraces()) {
    const std::string key = absl::StrCat("key-", ++calls);
    EXPECT_EQ(CallWith(key, trace), RawHttp2Client::End::kAnswered);
    EXPECT_EQ(runs_, calls) << "the call is served";
    const Outcome retry = client.Act(key);
    EXPECT_TRUE(retry.replayed()) << retry.status.error_message();
    EXPECT_TRUE(Get(retry.Trailer("idempotency-record")).labels().empty());
  }
  EXPECT_EQ(runs_, calls);
}

TEST_P(HostileCaller, DoesNotRunUnguardedWhereTheMethodFailsOpen) {
  ProbeServer& server = Serve(Counting(), [](ProbeServer::Options& options) {
    options.guard.methods[kAct].MutableReplacementPolicy().fail_open = true;
  });
  for (const std::string& trace : HostileTraces()) {
    EXPECT_EQ(CallWith("one key", trace), RawHttp2Client::End::kAnswered);
    EXPECT_EQ(CallWith("one-key", trace), RawHttp2Client::End::kAnswered);
  }
  EXPECT_EQ(server.guard().calls_failed_open(), 0u);
  EXPECT_EQ(runs_, 1) << "a key is run once, and one that is none never";
}

// A running call and a duplicate that waits for it keep their places, and calls that arrive
// meanwhile are answered in time.
TEST_P(HostileCaller, DoesNotAffectTheOthers) {
  Gate gate;
  Serve(
      [&](grpc::ServerContextBase&, const ActRequest& request, ActReply& reply) {
        if (request.account() == "slow") gate.Enter();
        reply.set_total(++runs_);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        MethodPolicy& policy = options.guard.methods[kAct].MutableReplacementPolicy();
        policy.in_flight = MethodPolicy::InFlight::kWait;
        policy.max_wait = absl::Seconds(60);
      });
  const ProbeClient client(server_->address());
  Call slow = With("slow");
  slow.account = "slow";
  slow.timeout = std::chrono::seconds(60);
  const auto send_slow = [&client, slow]() mutable {
    slow.context = std::make_shared<grpc::ClientContext>();
    return client.Send(slow);
  };
  std::future<Outcome> running = std::async(std::launch::async, send_slow);
  ASSERT_TRUE(gate.AwaitInside(1));
  std::future<Outcome> waiting = std::async(std::launch::async, send_slow);

  const std::vector<std::string> traces = HostileTraces();
  for (int i = 0; i < 20; ++i) {
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(CallWith(absl::StrCat("hostile-", i), traces[i % traces.size()]),
              RawHttp2Client::End::kAnswered);
    const Outcome innocent = client.Act(absl::StrCat("innocent-", i));
    EXPECT_TRUE(innocent.status.ok()) << innocent.status.error_message();
    EXPECT_LT(std::chrono::steady_clock::now() - began, kInTime);
  }
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "it waits, whatever the others send";
  gate.Open();
  const Outcome ran = running.get();
  EXPECT_TRUE(ran.status.ok()) << ran.status.error_message();
  EXPECT_FALSE(ran.replayed());
  const Outcome waited = waiting.get();
  EXPECT_TRUE(waited.replayed()) << waited.status.error_message();
  EXPECT_EQ(waited.body, ran.body);
  EXPECT_EQ(gate.inside(), 1);
}

INSTANTIATE_TEST_SUITE_P(Setups, HostileCaller,
                         ::testing::ValuesIn(OverEveryIdempotencyd({Api::kSync, Api::kCallback})),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
