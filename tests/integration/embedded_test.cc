// idempotencyd inside another process: the state that survives that process, and the effects of a
// Postgres that is unavailable, foreign or new. The guard over an embedded service has the suite of
// the remote one (guard_fixture.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::seconds kLong{30};

// An embedded_server that can be killed and started again on the same files.
class EmbeddedServer {
 public:
  EmbeddedServer(std::string store, std::string effects)
      : store_(std::move(store)), effects_(std::move(effects)) {
    Start();
  }
  void Start() {
    static constexpr char kReady[] = "embedded_server: serving on ";
    process_ = Process::Start({"embedded_server", store_, effects_}).value();
    const auto line = process_->WaitForLine(kReady);
    ASSERT_TRUE(line.ok()) << line.status() << process_->Stderr();
    address_ = std::string(absl::StripPrefix(*line, kReady));
  }
  void Kill() { process_->Kill(); }
  const std::string& address() const { return address_; }

  // The number of runs of the handler for each account.
  std::map<std::string, int> Runs() const {
    std::ifstream file(effects_);
    std::map<std::string, int> runs;
    for (std::string account; std::getline(file, account);) ++runs[account];
    return runs;
  }

 private:
  const std::string store_;
  const std::string effects_;
  std::unique_ptr<Process> process_;
  std::string address_;
};

Call CallFor(const std::string& key) {
  Call call;
  call.account = key;
  call.keys = {key};
  return call;
}

TEST(EmbeddedCrash, ARecordedReplyOutlivesKillMinus9ByteForByte) {
  const TempFolder folder;
  EmbeddedServer server("sqlite:" + folder.File("records.db"), folder.File("effects"));
  std::map<std::string, Outcome> acknowledged;
  for (int kill = 0; kill < 3; ++kill) {
    {
      const ProbeClient client(server.address());
      for (int i = 0; i < 5; ++i) {
        const std::string key = absl::StrCat("kill-", kill, "-", i);
        const Outcome outcome = client.Send(CallFor(key));
        ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
        acknowledged[key] = outcome;
      }
    }
    server.Kill();
    server.Start();
    const ProbeClient client(server.address());
    for (const auto& [key, first] : acknowledged) {
      Outcome retry = client.Send(CallFor(key));
      ASSERT_TRUE(retry.status.ok()) << key << ": " << retry.status.error_message();
      EXPECT_TRUE(retry.replayed()) << key;
      EXPECT_EQ(retry.body, first.body) << key;
      EXPECT_EQ(retry.initial_metadata, first.initial_metadata) << key;
      // Apart from its own mark, a replay is equal to the first caller's reply.
      retry.trailing_metadata.erase("idempotency-replayed");
      EXPECT_EQ(retry.trailing_metadata, first.trailing_metadata) << key;
    }
  }
  const std::map<std::string, int> runs = server.Runs();
  EXPECT_EQ(runs.size(), 15u);
  for (const auto& [account, count] : runs) EXPECT_EQ(count, 1) << account;
}

// Killed at any moment, under load: every acknowledged reply is stored, and no handler ran twice
// except after a lease had ended (none: the lease outlasts the test).
TEST(EmbeddedCrash, NothingAcknowledgedIsLostUnderLoad) {
  const TempFolder folder;
  EmbeddedServer server("sqlite:" + folder.File("records.db"), folder.File("effects"));
  constexpr int kClients = 4;
  std::vector<std::map<std::string, std::string>> bodies(kClients);
  std::atomic<int> replies{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      const ProbeClient client(server.address());
      for (int n = 0;; ++n) {
        const std::string key = absl::StrCat("client-", c, "-", n);
        const Outcome outcome = client.Send(CallFor(key));
        if (!outcome.status.ok()) return;  // killed
        bodies[c][key] = outcome.body;
        ++replies;
      }
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (replies < 100 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  server.Kill();
  for (std::thread& client : clients) client.join();
  ASSERT_GE(replies, 100);
  server.Start();
  const ProbeClient client(server.address());
  for (const auto& of_client : bodies) {
    for (const auto& [key, body] : of_client) {
      const Outcome retry = client.Send(CallFor(key));
      EXPECT_TRUE(retry.replayed()) << key;
      EXPECT_EQ(retry.body, body) << key;
    }
  }
  for (const auto& [account, count] : server.Runs()) EXPECT_EQ(count, 1) << account;
}

// The wrong order of the end: no handler runs that cannot be recorded.
TEST(EmbeddedEnd, AGuardThatOutlivesItsServiceFailsClosed) {
  const TempFolder folder;
  auto service = EmbeddedService::Open("sqlite:" + folder.File("records.db")).value();
  std::atomic<int> runs{0};
  ProbeServer::Options options;
  options.connect = [&service] { return service->MakeConnection(); };
  // A busy machine has a verdict by then, too.
  options.guard.verdict_timeout = absl::Seconds(2);
  options.handler = [&runs](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
    ++runs;
    return grpc::Status::OK;
  };
  const ProbeServer server(std::move(options));
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("before").status.ok());
  service.reset();
  EXPECT_EQ(client.Act("before").reason(), Reason::kStoreUnavailable);
  EXPECT_EQ(client.Act("after").reason(), Reason::kStoreUnavailable);
  EXPECT_EQ(runs, 1);
}

class EmbeddedOnPostgres : public ::testing::Test {
 protected:
  static EmbeddedOptions Migrating() {
    EmbeddedOptions options;
    options.migrate = true;
    return options;
  }
  // The output and the exit of `idempotencyd serve`.
  std::string RefusalOfTheDaemon() const {
    auto daemon = Process::Start({"idempotencyd", "serve", "--listen=127.0.0.1:0",
                                  "--metrics=", absl::StrCat("--store=", cluster_->url())})
                      .value();
    const auto exit = daemon->Wait();
    EXPECT_TRUE(exit.ok() && exit->code == 2) << "it started";
    return daemon->Stderr();
  }

  std::unique_ptr<PostgresCluster> cluster_ = PostgresCluster::Create({/*fsync=*/false}).value();
};

absl::StatusOr<v1::ReserveResponse> Reserve(const EmbeddedService& service,
                                            const std::string& key) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLong);
  v1::ReserveResponse response;
  const grpc::Status status = v1::IdempotencyService::NewStub(service.channel())
                                  ->Reserve(&context, SomeReserve(key), &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

TEST_F(EmbeddedOnPostgres, ASchemaThatIsNotThisBuildsIsRefusedAsTheDaemonDoes) {
  const auto missing = EmbeddedService::Open(cluster_->url());
  ASSERT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition) << missing.status();
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("migrate"));
  EXPECT_THAT(RefusalOfTheDaemon(), HasSubstr(std::string(missing.status().message())));

  { ASSERT_TRUE(EmbeddedService::Open(cluster_->url(), Migrating()).ok()); }
  // As a newer build would leave it.
  ExecuteSql(cluster_->url(),
             "INSERT INTO idempotency.schema_migrations (version, name, checksum)"
             " VALUES (999, 'of_tomorrow', 'x')");
  for (const EmbeddedOptions& options : {EmbeddedOptions(), Migrating()}) {
    const auto newer = EmbeddedService::Open(cluster_->url(), options);
    ASSERT_EQ(newer.status().code(), absl::StatusCode::kFailedPrecondition) << newer.status();
    EXPECT_THAT(RefusalOfTheDaemon(), HasSubstr(std::string(newer.status().message())));
  }
}

TEST_F(EmbeddedOnPostgres, MigratedOnceItOpensEitherWayAndSharesTheSchemaWithADaemon) {
  const auto first = EmbeddedService::Open(cluster_->url(), Migrating());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = EmbeddedService::Open(cluster_->url());
  ASSERT_TRUE(second.ok()) << second.status();
  const DaemonProcess daemon(cluster_->url());
  EXPECT_TRUE(Reserve(**first, "shared")->has_reserved());
  EXPECT_TRUE(Reserve(**second, "shared")->has_in_flight());
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("shared"))->has_in_flight());
}

TEST_F(EmbeddedOnPostgres, ItOpensWhilePostgresIsAwayAndRecoversByItself) {
  { ASSERT_TRUE(EmbeddedService::Open(cluster_->url(), Migrating()).ok()); }
  ASSERT_TRUE(cluster_->Stop().ok());
  const auto service = EmbeddedService::Open(cluster_->url());
  ASSERT_TRUE(service.ok()) << service.status();
  EXPECT_FALSE((*service)->store_status().ok());
  EXPECT_EQ(ReasonOf(Reserve(**service, "away").status()), Reason::kStoreUnavailable);

  ASSERT_TRUE(cluster_->Start().ok());
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!(*service)->store_status().ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE((*service)->store_status().ok()) << (*service)->store_status();
  EXPECT_TRUE(Reserve(**service, "away")->has_reserved());
}

TEST_F(EmbeddedOnPostgres, NoErrorHoldsAPassword) {
  for (const std::string store :
       {"postgresql://app:secret-word@host:99999/db", "postgres//app:secret-word@host/db"}) {
    const auto service = EmbeddedService::Open(store);
    EXPECT_EQ(service.status().code(), absl::StatusCode::kInvalidArgument) << service.status();
    EXPECT_THAT(service.status().ToString(), Not(HasSubstr("secret-word")));
  }
  const auto away = EmbeddedService::Open("postgresql://app:secret-word@127.0.0.1:1/db");
  ASSERT_TRUE(away.ok());
  EXPECT_FALSE((*away)->store_status().ok());
  EXPECT_THAT((*away)->store_status().ToString(), Not(HasSubstr("secret-word")));
  EXPECT_THAT(Reserve(**away, "x").status().ToString(), Not(HasSubstr("secret-word")));
}

}  // namespace
}  // namespace idempotency::internal::testing
