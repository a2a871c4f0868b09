// idempotencyd is killed with -9 and Postgres stopped with -m immediate, again
// and again, while clients charge: no acknowledged reply is lost, and no key
// has two effects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/effects.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/service_client.h"

namespace idempotency::internal::testing {
namespace {

constexpr int kFaultsOfEachKind = 20;
constexpr int kClients = 8;
// The number of acknowledged replies between two faults, so that every fault meets a system at
// work.
constexpr int kRepliesBetweenFaults = 40;
constexpr std::chrono::milliseconds kSettled{60000};

// Counts acknowledged replies and lets the nemesis wait for more of them.
class Progress {
 public:
  void Acknowledged(const std::string& key, const std::string& body) {
    MutexLock lock(mutex_);
    bodies_[key] = body;
    ++count_;
    changed_.NotifyAll();
  }
  // False if it took more than a minute.
  bool AwaitMore(int more) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(mutex_);
    const int target = count_ + more;
    while (count_ < target) {
      if (!changed_.WaitUntil(lock, deadline) && count_ < target) return false;
    }
    return true;
  }
  std::map<std::string, std::string> Bodies() {
    MutexLock lock(mutex_);
    return bodies_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> bodies_ ABSL_GUARDED_BY(mutex_);
};

// Charges with new keys until it is stopped; sends every third one again.
void Load(const std::string& address, int number, const std::atomic<bool>& stop,
          Progress& progress) {
  const ProbeClient client(address);
  for (int n = 0; !stop; ++n) {
    const std::string key = absl::StrCat("client-", number, "-", n);
    Call call;
    call.account = key;
    call.keys = {key};
    call.timeout = std::chrono::milliseconds(8000);
    const Outcome outcome = client.SendUntilSettled(call, kSettled);
    ASSERT_TRUE(outcome.status.ok()) << key << ": " << outcome.status.error_message();
    progress.Acknowledged(key, outcome.body);
    if (n % 3 != 0) continue;
    const Outcome again = client.SendUntilSettled(call, kSettled);
    ASSERT_TRUE(again.status.ok()) << key << ": " << again.status.error_message();
    ASSERT_EQ(again.body, outcome.body) << key;
    ASSERT_TRUE(again.replayed()) << key;
  }
}

// Every acknowledged key is there, with the reply that was acknowledged.
void ExpectNothingLost(const std::string& address,
                       const std::map<std::string, std::string>& bodies) {
  const ProbeClient client(address);
  for (const auto& [key, body] : bodies) {
    Call call;
    call.account = key;
    call.keys = {key};
    const Outcome outcome = client.SendUntilSettled(call, kSettled);
    ASSERT_TRUE(outcome.status.ok()) << key << ": " << outcome.status.error_message();
    EXPECT_TRUE(outcome.replayed()) << key << " ran again";
    EXPECT_EQ(outcome.body, body) << key;
  }
}

// The remains of a key that show how it ran twice.
std::string RecordOf(const std::string& address, const std::string& key) {
  v1::GetRequest request;
  v1::RecordKey& record_key = *request.mutable_record_key();
  record_key.set_namespace_("probe");
  record_key.set_scope("everybody");
  record_key.set_operation("/idempotency.testing.Probe/Act");
  record_key.set_key(key);
  const auto response = ServiceClient(address).Call(request);
  return response.ok() ? response->record().ShortDebugString()
                       : std::string(response.status().message());
}

TEST(Crash, NothingAcknowledgedIsLostAndNothingHappensTwice) {
  auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  DaemonProcess daemon(cluster->url());
  Effects effects;
  ProbeServer::Options options;
  options.idempotencyd = daemon.address();
  options.api = Api::kCallback;
  options.handler = effects.Handler();
  // Longer than all the faults together: a lease that runs out while the store is unavailable may
  // be taken over, and would hide the faults that this test must detect.
  MethodPolicy policy;
  policy.lease = absl::Minutes(30);
  options.guard.methods["/idempotency.testing.Probe/Act"].policy = policy;
  ProbeServer server(std::move(options));

  Progress progress;
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] { Load(server.address(), c, stop, progress); });
  }
  bool moving = progress.AwaitMore(kRepliesBetweenFaults);
  for (int fault = 0; fault < kFaultsOfEachKind && moving; ++fault) {
    daemon.Kill();
    daemon.Restart();
    moving = progress.AwaitMore(kRepliesBetweenFaults);
    EXPECT_TRUE(moving) << "stuck after kill -9 of idempotencyd, fault " << fault << "\n"
                        << daemon.process().Stderr();
    if (!moving) break;
    ASSERT_TRUE(cluster->StopImmediate().ok());
    ASSERT_TRUE(cluster->Start().ok());
    moving = progress.AwaitMore(kRepliesBetweenFaults);
    EXPECT_TRUE(moving) << "stuck after the immediate stop of Postgres, fault " << fault << "\n"
                        << daemon.process().Stderr();
  }
  stop = true;
  for (std::thread& client : clients) client.join();

  const auto bodies = progress.Bodies();
  ExpectNothingLost(server.address(), bodies);
  int twice = 0;
  for (const auto& [key, count] : effects.Runs()) {
    if (count != 1) ++twice;
    EXPECT_EQ(count, 1) << key << ": " << RecordOf(daemon.address(), key);
  }
  std::cout << "faults: " << 2 * kFaultsOfEachKind << ", acknowledged keys: " << bodies.size()
            << ", keys with two effects: " << twice << "\n";
}

}  // namespace
}  // namespace idempotency::internal::testing
