// Two replicas of idempotencyd on one Postgres, and many clients with the same keys: the handler
// runs once for each key, and every client gets the same reply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/effects.h"
#include "tests/support/api_name.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"

namespace idempotency::internal::testing {
namespace {

constexpr int kClients = 64;
constexpr int kKeys = 40;
constexpr std::chrono::milliseconds kLimit{60000};

// The parts that a client must not be able to distinguish: everything but the guard's own marks.
std::string Fingerprint(const Outcome& outcome) {
  std::string all = absl::StrCat(outcome.status.error_code(), "|", outcome.status.error_message(),
                                 "|", outcome.status.error_details(), "|", outcome.body);
  for (const auto& [key, value] : outcome.initial_metadata) {
    if (key != "date") absl::StrAppend(&all, "|i:", key, "=", value);
  }
  for (const auto& [key, value] : outcome.trailing_metadata) {
    if (key.rfind("idempotency-", 0) != 0) absl::StrAppend(&all, "|t:", key, "=", value);
  }
  return all;
}

class Replicas : public ::testing::TestWithParam<Api> {};

TEST_P(Replicas, SixtyFourClientsWithSharedKeysRunEachKeyOnce) {
  auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  DaemonProcess first(cluster->url());
  DaemonProcess second(cluster->url());
  Effects effects;
  // Two guarded servers, each with both replicas in another order.
  std::vector<std::unique_ptr<ProbeServer>> servers;
  for (const auto& [a, b] : {std::pair(&first, &second), std::pair(&second, &first)}) {
    ProbeServer::Options options;
    options.idempotencyd = absl::StrCat("ipv4:", a->address(), ",", b->address());
    options.api = GetParam();
    options.handler = effects.Handler();
    MethodPolicy policy;
    policy.in_flight = MethodPolicy::InFlight::kWait;
    policy.max_wait = absl::Seconds(2);
    options.guard.methods["/idempotency.testing.Probe/Act"].policy = policy;
    servers.push_back(std::make_unique<ProbeServer>(std::move(options)));
  }

  Mutex mutex;
  std::map<std::string, std::set<std::string>> replies;
  std::atomic<int> failed{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      const ProbeClient client(servers[c % servers.size()]->address());
      for (int k = 0; k < kKeys; ++k) {
        // Half of the clients take the keys in reverse order.
        const std::string key = absl::StrCat("shared-", c % 4 < 2 ? k : kKeys - 1 - k);
        Call call;
        call.account = key;
        call.keys = {key};
        Outcome outcome = client.SendUntilSettled(call, kLimit);
        if (!outcome.status.ok()) {
          ++failed;
          ADD_FAILURE() << key << ": " << outcome.status.error_message();
        }
        MutexLock lock(mutex);
        replies[key].insert(Fingerprint(outcome));
      }
    });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_EQ(failed, 0);
  EXPECT_EQ(replies.size(), kKeys);
  for (const auto& [key, distinct] : replies) {
    EXPECT_EQ(distinct.size(), 1) << key << " was answered in different ways";
  }
  const std::map<std::string, int> runs = effects.Runs();
  EXPECT_EQ(runs.size(), kKeys);
  for (const auto& [key, count] : runs) EXPECT_EQ(count, 1) << key;
}

INSTANTIATE_TEST_SUITE_P(BothApis, Replicas, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
