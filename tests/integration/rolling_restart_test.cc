// Two daemons behind one name are restarted, one after the other, under load: no caller with a
// Connection is affected.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/integration/session_cycles.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/service_client.h"

namespace idempotency::internal::testing {
namespace {

class RollingRestartTest : public ::testing::Test {
 protected:
  // Whether the channel has found both daemons: calls alternate between those that it is connected
  // to.
  bool AwaitConnected() { return AwaitConnected(first_) && AwaitConnected(second_); }
  bool AwaitConnected(const DaemonProcess& daemon) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      grpc::ClientContext context;
      v1::GetResponse response;
      stub_->Get(&context, SomeGet("nobody's"), &response);
      if (absl::EndsWith(context.peer(), daemon.address())) return true;
    }
    return false;
  }

  const std::unique_ptr<PostgresCluster> cluster_ = MigratedCluster();
  DaemonProcess first_{cluster_->url()};
  DaemonProcess second_{cluster_->url()};
  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateCustomChannel(absl::StrCat("ipv4:", first_.address(), ",", second_.address()),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
  const std::unique_ptr<v1::IdempotencyService::Stub> stub_ =
      v1::IdempotencyService::NewStub(channel_);

 private:
  static std::unique_ptr<PostgresCluster> MigratedCluster() {
    auto cluster = PostgresCluster::Create().value();
    MigrateStore(cluster->url());
    return cluster;
  }
};

TEST_F(RollingRestartTest, SessionsMoveWithoutAFailedOperation) {
  ConnectionOptions options;
  options.session.streams = 2;
  const auto connection = MakeConnection(channel_, options);
  SessionCycles cycles(*connection);
  for (int round = 0; round < 2; ++round) {
    for (DaemonProcess* daemon : {&first_, &second_}) {
      // An operator who restarts daemons waits until one is back before stopping the next.
      ASSERT_TRUE(AwaitConnected());
      ASSERT_TRUE(cycles.AwaitMore(200));
      EXPECT_EQ(daemon->Terminate().code, 0);
      ASSERT_TRUE(cycles.AwaitMore(200));
      daemon->Restart();
    }
  }
  EXPECT_TRUE(cycles.AwaitMore(200));
  EXPECT_EQ(cycles.failed(), 0);
}

// kill -9: unanswered operations are sent again, under the same tokens.
TEST_F(RollingRestartTest, AKilledDaemonLosesNothing) {
  const auto connection = MakeConnection(channel_);
  SessionCycles cycles(*connection);
  for (DaemonProcess* daemon : {&first_, &second_, &first_, &second_}) {
    ASSERT_TRUE(AwaitConnected());
    ASSERT_TRUE(cycles.AwaitMore(100));
    daemon->Kill();
    ASSERT_TRUE(cycles.AwaitMore(100));
    daemon->Restart();
  }
  EXPECT_EQ(cycles.failed(), 0);
}

}  // namespace
}  // namespace idempotency::internal::testing
