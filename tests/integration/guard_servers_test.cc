// Several services on a server, several guards in a process, several hosts.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr char kTwinsAct[] = "/idempotency.testing.Twin/Act";

// The Twin service in both APIs.
class SyncTwin final : public Twin::Service {
 public:
  explicit SyncTwin(std::atomic<int>& runs) : runs_(runs) {}
  grpc::Status Act(grpc::ServerContext*, const ActRequest*, ActReply* reply) override {
    reply->set_total(100 + ++runs_);
    return grpc::Status::OK;
  }

 private:
  std::atomic<int>& runs_;
};

class CallbackTwin final : public Twin::CallbackService {
 public:
  explicit CallbackTwin(std::atomic<int>& runs) : runs_(runs) {}
  grpc::ServerUnaryReactor* Act(grpc::CallbackServerContext* context, const ActRequest*,
                                ActReply* reply) override {
    reply->set_total(100 + ++runs_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  std::atomic<int>& runs_;
};

std::unique_ptr<grpc::Service> MakeTwin(Api api, std::atomic<int>& runs) {
  if (api == Api::kSync) return std::make_unique<SyncTwin>(runs);
  return std::make_unique<CallbackTwin>(runs);
}

// A Probe service that counts its runs.
struct CountedProbe {
  explicit CountedProbe(Api api)
      : service(ProbeService::Make(
            api, [this](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
              reply.set_total(++runs);
              return grpc::Status::OK;
            })) {}

  std::atomic<int> runs{0};
  std::unique_ptr<ProbeService> service;
};

// Calls that name `authority`.
ProbeClient ClientOf(const std::string& address, const std::string& authority) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, authority);
  return ProbeClient(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

using GuardAndServers = GuardFixture;

TEST_P(GuardAndServers, TwoServicesOfOneServerShareNoKeys) {
  std::atomic<int> twin_runs{0};
  const auto twin = MakeTwin(GetParam(), twin_runs);
  CountedProbe probe(GetParam());
  const auto server = MakeServer(nullptr, [&](ProbeServer::Options& options) {
    options.protect = [&](ServerGuard& guard, grpc::ServerBuilder& builder) {
      const absl::Status status = guard.Protect<Probe>(builder, probe.service->service());
      return status.ok() ? guard.Protect<Twin>(builder, twin.get()) : status;
    };
  });
  const ProbeClient client(server->address());
  Call to_twin = With("both");
  to_twin.service = "idempotency.testing.Twin";
  const Outcome first = client.Send(to_twin);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().total(), 101);
  EXPECT_EQ(client.Act("both").reply().total(), 1);
  to_twin.context = std::make_shared<grpc::ClientContext>();
  const Outcome retry = client.Send(to_twin);
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_TRUE(client.Act("both").replayed());
  EXPECT_EQ(Get(first.Trailer("idempotency-record")).record_key().operation(), kTwinsAct);
  EXPECT_EQ(twin_runs, 1);
  EXPECT_EQ(probe.runs, 1);
}

TEST_P(GuardAndServers, TwoGuardsOfOneNamespaceShareKeysAndEndApart) {
  auto one = MakeServer(Counting());
  const auto two = MakeServer(Counting());
  const ProbeClient to_one(one->address());
  const ProbeClient to_two(two->address());
  const Outcome first = to_one.Act("shared");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  const Outcome elsewhere = to_two.Act("shared");
  EXPECT_TRUE(elsewhere.replayed());
  EXPECT_EQ(elsewhere.body, first.body);
  one.reset();
  EXPECT_TRUE(to_two.Act("shared").replayed());
  EXPECT_TRUE(to_two.Act("alone").status.ok());
  EXPECT_EQ(runs_, 2);
}

TEST_P(GuardAndServers, TwoGuardsOfTwoNamespacesShareNothing) {
  const auto one = MakeServer(Counting());
  const auto two = MakeServer(
      Counting(), [](ProbeServer::Options& options) { options.guard.name_space = "another"; });
  EXPECT_EQ(ProbeClient(one->address()).Act("apart").reply().total(), 1);
  EXPECT_EQ(ProbeClient(two->address()).Act("apart").reply().total(), 2);
}

TEST_P(GuardAndServers, HostsShareNoKeys) {
  CountedProbe one(GetParam());
  CountedProbe two(GetParam());
  CountedProbe any(GetParam());
  const auto server = MakeServer(nullptr, [&](ProbeServer::Options& options) {
    options.protect = [&](ServerGuard& guard, grpc::ServerBuilder& builder) {
      absl::Status status = guard.Protect<Probe>(builder, "one.example", one.service->service());
      status.Update(guard.Protect<Probe>(builder, "two.example", two.service->service()));
      status.Update(guard.Protect<Probe>(builder, any.service->service()));
      return status;
    };
  });
  struct Host {
    std::string authority;
    CountedProbe& probe;
    std::string operation;
  };
  const std::string act = kAct;
  const std::vector<Host> hosts = {{"one.example", one, "one.example" + act},
                                   {"two.example", two, "two.example" + act},
                                   {"three.example", any, act}};
  for (const Host& host : hosts) {
    const ProbeClient client = ClientOf(server->address(), host.authority);
    const Outcome first = client.Act("hosted");
    ASSERT_TRUE(first.status.ok()) << first.status.error_message();
    EXPECT_FALSE(first.replayed()) << host.authority;
    EXPECT_EQ(Get(first.Trailer("idempotency-record")).record_key().operation(), host.operation);
  }
  for (const Host& host : hosts) {
    EXPECT_TRUE(ClientOf(server->address(), host.authority).Act("hosted").replayed());
    EXPECT_EQ(host.probe.runs, 1) << host.authority;
  }
}

// Policies are by path.
TEST_P(GuardAndServers, PoliciesHoldForEveryHost) {
  CountedProbe one(GetParam());
  CountedProbe two(GetParam());
  const auto server = MakeServer(nullptr, [&](ProbeServer::Options& options) {
    options.guard.methods[kAct].MutableReplacementPolicy().key = MethodPolicy::Key::kOptional;
    options.protect = [&](ServerGuard& guard, grpc::ServerBuilder& builder) {
      absl::Status status = guard.Protect<Probe>(builder, "one.example", one.service->service());
      status.Update(guard.Protect<Probe>(builder, "two.example", two.service->service()));
      return status;
    };
  });
  for (const std::string authority : {"one.example", "two.example"}) {
    const ProbeClient client = ClientOf(server->address(), authority);
    EXPECT_TRUE(client.Send(Call()).status.ok());
    EXPECT_TRUE(client.Act("optional").status.ok());
    EXPECT_TRUE(client.Act("optional").replayed());
  }
  EXPECT_EQ(ClientOf(server->address(), "three.example").Act("nowhere").status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(one.runs, 2);
  EXPECT_EQ(two.runs, 2);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardAndServers,
                         ::testing::ValuesIn(OverEveryIdempotencyd({Api::kSync, Api::kCallback})),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
