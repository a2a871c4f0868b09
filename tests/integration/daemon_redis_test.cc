// idempotencyd on Redis: what it refuses at the start, and its health.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/store/redis/identity.h"
#include "server/store/redis/options.h"
#include "tests/support/daemon_process.h"
#include "tests/support/health_watch.h"
#include "tests/support/programs.h"
#include "tests/support/redis_process.h"
#include "tests/support/service_client.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string UrlOf(const RedisProcess& server) {
  return absl::StrCat("redis://127.0.0.1:", server.port());
}

std::unique_ptr<RedisProcess> StartServer(const RedisProcessOptions& options = {}) {
  auto server = RedisProcess::Create(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(DaemonOnRedis, RefusesAServerThatMayDropRecords) {
  RedisProcessOptions evicting;
  evicting.settings = {"--maxmemory-policy", "volatile-lru"};
  const auto server = StartServer(evicting);
  auto process = Process::Start({ProgramPath("idempotencyd").value(), "serve",
                                 absl::StrCat("--store=", UrlOf(*server)), "--listen=127.0.0.1:0",
                                 "--metrics="});
  ASSERT_TRUE(process.ok()) << process.status();
  const auto exit = (*process)->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 2);
  EXPECT_THAT((*process)->Stderr(), HasSubstr("noeviction"));
}

struct Ended {
  int code;
  std::string out;
  std::string err;
};

Ended RunDaemon(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ProgramPath("idempotencyd").value());
  const auto process = Process::Start(arguments);
  EXPECT_TRUE(process.ok()) << process.status();
  const auto exit = (*process)->Wait();
  EXPECT_TRUE(exit.ok()) << exit.status();
  return {exit->code.value_or(-1), (*process)->Stdout(), (*process)->Stderr()};
}

Ended ServeOn(const RedisProcess& server) {
  return RunDaemon(
      {"serve", absl::StrCat("--store=", UrlOf(server)), "--listen=127.0.0.1:0", "--metrics="});
}

// Also by a supervisor that starts the daemon again and again.
TEST(DaemonOnRedis, LostDataAreNotServedBeforeMigrate) {
  RedisProcessOptions forgetful;
  forgetful.durable = false;
  const auto server = StartServer(forgetful);
  const std::string store = absl::StrCat("--store=", UrlOf(*server));
  const auto expect_refused = [&server](const std::string& why) {
    const Ended refused = ServeOn(*server);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr(why));
    EXPECT_THAT(refused.err, HasSubstr("run `idempotencyd migrate"));
  };
  expect_refused("it is new, or lost its data");
  EXPECT_THAT(RunDaemon({"migrate", "--status", store}).out,
              HasSubstr("0 of 128 markers are there"));
  EXPECT_THAT(RunDaemon({"migrate", store}).out, HasSubstr("wrote 128 markers"));
  EXPECT_THAT(RunDaemon({"migrate", store}).out, HasSubstr("nothing to do"));
  DaemonProcess daemon(UrlOf(*server));
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("lost")).ok());
  server->Kill();
  ASSERT_TRUE(server->Start().ok());
  HealthWatch health(daemon.address());
  EXPECT_TRUE(health.AwaitServing(false));
  EXPECT_EQ(daemon.Terminate().code, 0);
  expect_refused("it is new, or lost its data");
  expect_refused("it is new, or lost its data");
  EXPECT_THAT(RunDaemon({"migrate", store}).out, HasSubstr("wrote 128 markers"));
  daemon.Restart();
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("lost")).ok());
  EXPECT_EQ(daemon.Terminate().code, 0);
}

// `migrate` runs beside `serve`, or was stopped.
TEST(DaemonOnRedis, APreparationThatHasNotEndedIsWaitedFor) {
  const auto server = StartServer();
  const std::string store = absl::StrCat("--store=", UrlOf(*server));
  const RedisOptions options = ParseRedisUrl(UrlOf(*server)).value();
  server->Must({"SET", RedisIdentity(options).keys().front(), "preparing:1:x"});
  EXPECT_THAT(RunDaemon({"migrate", "--status", store}).out,
              HasSubstr("0 of 128 markers are there, the preparation has not ended"));
  DaemonProcess daemon(UrlOf(*server));
  {
    HealthWatch health(daemon.address());
    EXPECT_TRUE(health.AwaitServing(false));
    EXPECT_THAT(daemon.process().Stderr(), HasSubstr("the preparation under idempotency has not"));
    const Ended prepared = RunDaemon({"migrate", store});
    EXPECT_THAT(prepared.out, HasSubstr("wrote 128 markers"));
    EXPECT_THAT(prepared.err, Not(HasSubstr("lost records")));
    EXPECT_TRUE(health.AwaitServing(true)) << daemon.process().Stderr();
  }
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("prepared")).ok());
  EXPECT_EQ(daemon.Terminate().code, 0);
}

TEST(DaemonOnRedis, OneCommandServesAnEmptyRedisToTryItOut) {
  const auto server = StartServer();
  DaemonProcess daemon(UrlOf(*server), {"--accept_empty_store"});
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("first")).ok());
  EXPECT_EQ(daemon.Terminate().code, 0);
}

TEST(DaemonOnRedis, WarnsOfWhatIsAcknowledgedBeforeItIsDurable) {
  RedisProcessOptions lazy;
  lazy.settings = {"--appendfsync", "everysec"};
  const auto server = StartServer(lazy);
  MigrateStore(UrlOf(*server));
  DaemonProcess daemon(UrlOf(*server));
  EXPECT_THAT(daemon.process().Stderr(),
              HasSubstr("completions are acknowledged before they are durable"));
  EXPECT_EQ(daemon.Terminate().code, 0);
}

TEST(DaemonOnRedis, ItsHealthIsThatOfTheNextCompletion) {
  const auto server = StartServer();
  MigrateStore(UrlOf(*server));
  DaemonProcess daemon(UrlOf(*server));
  const ServiceClient client(daemon.address());
  EXPECT_TRUE(client.Call(SomeReserve("before")).ok());
  {
    HealthWatch health(daemon.address());
    EXPECT_TRUE(health.AwaitServing(true));
    server->Kill();
    EXPECT_TRUE(health.AwaitServing(false));
    EXPECT_FALSE(client.Call(SomeReserve("meanwhile")).ok());
    ASSERT_TRUE(server->Start().ok());
    EXPECT_TRUE(health.AwaitServing(true)) << daemon.process().Stderr();
  }
  EXPECT_TRUE(client.Call(SomeReserve("after")).ok());
  EXPECT_EQ(daemon.Terminate().code, 0);
}

}  // namespace
}  // namespace idempotency::internal::testing
