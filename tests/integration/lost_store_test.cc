// Two replicas on one Postgres, of which one, or both, lose it.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "tests/integration/effects.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(5);

class LostStore : public ::testing::Test {
 protected:
  LostStore() {
    MigrateStore(cluster_->url());
    GiveFirstItsStore();
    first_.emplace(LinkedUrl());
    second_.emplace(cluster_->url());
    channel_ = grpc::CreateCustomChannel(
        absl::StrCat("ipv4:", first_->address(), ",", second_->address()),
        grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
    // The sessions of a channel alternate between the replicas.
    for (int i = 0; i < 4; ++i) {
      connections_.push_back(MakeConnection(channel_));
      EXPECT_LT(TimeToVerdict(*connections_.back()), absl::Seconds(20));
    }
  }

  // The first replica reaches the server through a link to the folder of its socket.
  std::string SocketFolder() const {
    const std::string url = cluster_->url();
    return absl::StrReplaceAll(url.substr(url.find("host=") + 5), {{"%2F", "/"}});
  }
  std::string LinkedUrl() const {
    const std::string url = cluster_->url();
    return absl::StrCat(url.substr(0, url.find("host=") + 5),
                        absl::StrReplaceAll(link_, {{"/", "%2F"}}));
  }
  void GiveFirstItsStore() const {
    std::filesystem::create_directory_symlink(SocketFolder(), link_);
  }
  void TakeFirstItsStore() const {
    std::filesystem::remove(link_);
    ExecuteSql(cluster_->url(),
               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
               " WHERE application_name = 'idempotencyd' AND pid <> pg_backend_pid()");
  }

  // Its connections were ended, too.
  void AwaitSecond() const {
    const ServiceClient second(second_->address());
    while (!second.Call(SomeReserve(Uuid::Random().ToString())).ok()) std::this_thread::yield();
  }

  static absl::Status Reserve(Connection& connection) {
    std::promise<absl::Status> answer;
    connection.Reserve(SomeReserve(Uuid::Random().ToString()),
                       std::chrono::steady_clock::now() + std::chrono::seconds(2),
                       [&answer](const auto& response) { answer.set_value(response.status()); });
    return answer.get_future().get();
  }
  // The time until an answer with a verdict; 30 s at the most.
  static absl::Duration TimeToVerdict(Connection& connection) {
    const absl::Time began = absl::Now();
    while (!Reserve(connection).ok() && absl::Now() - began < absl::Seconds(30)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return absl::Now() - began;
  }

  const TempFolder folder_;
  const std::string link_ = folder_.File("link");
  const std::unique_ptr<PostgresCluster> cluster_ = PostgresCluster::Create().value();
  std::optional<DaemonProcess> first_;
  std::optional<DaemonProcess> second_;
  std::shared_ptr<grpc::Channel> channel_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

TEST_F(LostStore, SessionsLeaveAReplicaThatAloneHasLostIt) {
  TakeFirstItsStore();
  AwaitSecond();
  ASSERT_FALSE(ServiceClient(first_->address()).Call(SomeReserve("key")).ok());
  for (const auto& connection : connections_) {
    EXPECT_LT(TimeToVerdict(*connection), kSoon);
    for (int i = 0; i < 50; ++i) {
      const absl::Status answer = Reserve(*connection);
      EXPECT_TRUE(answer.ok()) << answer;
    }
  }
  // And the replica serves again.
  GiveFirstItsStore();
  const ServiceClient first(first_->address());
  const absl::Time began = absl::Now();
  while (!first.Call(SomeReserve(Uuid::Random().ToString())).ok()) {
    ASSERT_LT(absl::Now() - began, absl::Seconds(20));
  }
}

// The guard repeats its reservation on the next replica.
TEST_F(LostStore, CallersOfGuardsGetNoError) {
  Effects effects;
  std::vector<std::unique_ptr<ProbeServer>> servers;
  // Each begins with one of the replicas.
  for (int i = 0; i < 4; ++i) {
    ProbeServer::Options options;
    options.idempotencyd = absl::StrCat("ipv4:", first_->address(), ",", second_->address());
    options.handler = effects.Handler();
    servers.push_back(std::make_unique<ProbeServer>(std::move(options)));
  }
  const auto act = [&](int server, const std::string& key) {
    Call call;
    call.account = key;
    call.keys = {key};
    return ProbeClient(servers[server]->address()).Send(call).status;
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(act(i, absl::StrCat("before-", i)).ok());
  TakeFirstItsStore();
  AwaitSecond();
  for (int i = 0; i < 40; ++i) {
    const grpc::Status status = act(i % 4, absl::StrCat("after-", i));
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

// As during a failover of the primary.
TEST_F(LostStore, AllReplicasRefuseAtOnceAndServeSoonAfterItIsBack) {
  ASSERT_TRUE(cluster_->StopImmediate().ok());
  const absl::Time lost = absl::Now();
  while (absl::Now() - lost < absl::Seconds(10)) {
    for (const auto& connection : connections_) {
      const absl::Time sent = absl::Now();
      const absl::Status answer = Reserve(*connection);
      EXPECT_EQ(ReasonOf(answer), Reason::kStoreUnavailable) << answer;
      EXPECT_TRUE(DetailsOf(answer).retry_delay.has_value());
      EXPECT_LT(absl::Now() - sent, absl::Seconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(cluster_->Start().ok());
  const absl::Time back = absl::Now();
  for (const auto& connection : connections_) TimeToVerdict(*connection);
  const absl::Duration took = absl::Now() - back;
  RecordProperty("recovered_after", absl::FormatDuration(took));
  EXPECT_LT(took, kSoon);
}

}  // namespace
}  // namespace idempotency::internal::testing
