// The behaviour that an operator relies on while idempotencyd runs: metrics that change, sweeping,
// waiting across replicas, and an orderly end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "tests/support/daemon_process.h"
#include "tests/support/forgotten_records.h"
#include "tests/support/health_watch.h"
#include "tests/support/metrics_page.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLong{30};

// Reads a daemon's metrics until `holds` is true of them. False if that took too long.
template <typename Holds>
bool AwaitMetrics(DaemonProcess& daemon, Holds holds) {
  const auto deadline = Clock::now() + kLong;
  while (!holds(MetricsPage::Fetch(daemon.metrics_address()))) {
    if (Clock::now() >= deadline) return false;
  }
  return true;
}

std::string TokenOf(const absl::StatusOr<v1::ReserveResponse>& response) {
  EXPECT_TRUE(response.ok() && response->has_reserved()) << response.status();
  return response.ok() ? response->reserved().reservation_token() : "";
}

v1::ReserveRequest ReserveFor(const std::string& key, int lease_ms) {
  v1::ReserveRequest request = SomeReserve(key);
  request.mutable_lease()->set_nanos(lease_ms * 1'000'000);
  return request;
}

// Repeats the request until the attempt is no longer running: its lease runs out.
absl::StatusOr<v1::ReserveResponse> AfterTheLease(const ServiceClient& client,
                                                  const v1::ReserveRequest& request) {
  const auto deadline = Clock::now() + kLong;
  while (true) {
    auto response = client.Call(request);
    if (!response.ok() || !response->has_in_flight() || Clock::now() >= deadline) return response;
  }
}

// The content of a record for people and for recovery, from the first call to the last.
void ExpectItsContextAlongARecordsLife(const ServiceClient& client) {
  using Labels = std::map<std::string, std::string>;
  const auto labels = [](const auto& message) {
    return Labels(message.labels().begin(), message.labels().end());
  };
  const Labels sent = {{"build", "41"}, {"request", "r-1 \"{}"}};
  v1::ReserveRequest request = ReserveFor("described", 200);
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  *request.mutable_parent() = SomeRecordKey("the-parent");
  request.mutable_labels()->insert(sent.begin(), sent.end());
  const auto first = client.Call(request);
  const std::string token = TokenOf(first);
  EXPECT_EQ(labels(first->reserved()), sent);
  EXPECT_FALSE(first->reserved().recovering());
  v1::ExtendRequest extend = SomeExtend("described", token);
  extend.mutable_lease()->set_nanos(10'000'000);
  extend.set_checkpoint("step 1");
  ASSERT_TRUE(client.Call(extend).ok());

  request.set_recover(true);
  request.mutable_labels()->clear();
  (*request.mutable_labels())["build"] = "42";
  request.clear_parent();
  const auto second = AfterTheLease(client, request);
  const std::string recovered = TokenOf(second);
  EXPECT_EQ(second->reserved().attempt(), 2u);
  EXPECT_TRUE(second->reserved().recovering());
  EXPECT_EQ(second->reserved().checkpoint(), "step 1");
  EXPECT_EQ(labels(second->reserved()), sent);
  ASSERT_TRUE(client.Call(SomeComplete("described", recovered, "body")).ok());
  EXPECT_EQ(labels(client.Call(request)->replay()), sent);
  const v1::Record record = client.Call(SomeGet("described"))->record();
  EXPECT_EQ(labels(record), sent);
  EXPECT_EQ(record.parent().key(), "the-parent");
  EXPECT_EQ(record.parent().namespace_(), "payments");
}

class DaemonService : public ::testing::Test {
 protected:
  TempFolder folder_;
  // Metrics by namespace are those of the namespaces that it lists.
  std::string Config() const {
    std::ofstream(folder_.File("config")) << R"(identities { name: "machine" local: true }
              rules { identity: "machine" namespaces: "*" permissions: [WRITE, READ, READ_CONTENT] }
              namespaces { name: "payments" limits { max_records: 1000 } })";
    return "--config=" + folder_.File("config");
  }
  DaemonProcess daemon_{"sqlite:" + folder_.File("records.db"),
                        {"--sweep_interval=100ms", Config()}};
  ServiceClient client_{daemon_.address()};
};

// "name type label=value" of each line of the contract, and of the page.
std::set<std::string> Golden() {
  std::ifstream file(IDEMPOTENCY_METRICS_GOLDEN);
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!absl::StrContains(line, "build_info")) lines.insert(line);
  }
  return lines;
}

std::set<std::string> SeriesOf(const MetricsPage& page) {
  std::set<std::string> lines;
  for (const auto& [series, value] : page.samples()) {
    static_cast<void>(value);
    const std::vector<std::string> parts = absl::StrSplit(series, absl::ByAnyChar("{}"));
    std::string name = parts[0];
    // A histogram counts once here, by its _count.
    if (page.types().find(name) == page.types().end()) {
      if (!absl::EndsWith(name, "_count")) continue;
      name.resize(name.size() - std::string("_count").size());
    }
    std::string line = absl::StrCat(name, " ", page.types().at(name));
    if (parts.size() > 1) {
      std::vector<std::string> labels = absl::StrSplit(parts[1], ',');
      for (std::string& label : labels) {
        label.erase(std::remove(label.begin(), label.end(), '"'), label.end());
      }
      std::sort(labels.begin(), labels.end());
      absl::StrAppend(&line, " ", absl::StrJoin(labels, " "));
    }
    lines.insert(line);
  }
  return lines;
}

TEST_F(DaemonService, MetricsHoldTheContractAndMove) {
  // Every verdict and every method once, and failures.
  const std::string token = TokenOf(client_.Call(SomeReserve("done")));
  EXPECT_TRUE(client_.Call(SomeReserve("done"))->has_in_flight());
  EXPECT_TRUE(client_.Call(SomeExtend("done", token)).ok());
  EXPECT_TRUE(client_.Call(SomeComplete("done", token, "body")).ok());
  EXPECT_TRUE(client_.Call(SomeReserve("done"))->has_replay());
  EXPECT_TRUE(client_.Call(SomeGet("done")).ok());
  v1::ReserveRequest other = SomeReserve("done");
  other.mutable_fingerprints(0)->set_digest(std::string(32, 'o'));
  EXPECT_TRUE(client_.Call(other)->has_mismatch());
  EXPECT_EQ(ReasonOf(client_.Call(SomeComplete("done", Uuid::Random().ToString(), "x")).status()),
            Reason::kReservationLost);
  const std::string given_back = TokenOf(client_.Call(SomeReserve("released")));
  EXPECT_TRUE(client_.Call(SomeRelease("released", given_back)).ok());
  EXPECT_TRUE(client_.Call(ReserveFor("lapses", 10))->has_reserved());
  EXPECT_EQ(AfterTheLease(client_, SomeReserve("lapses"))->reserved().attempt(), 2u);
  v1::ReserveRequest recover = ReserveFor("unknown", 10);
  recover.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  EXPECT_TRUE(client_.Call(recover)->has_reserved());
  EXPECT_TRUE(AfterTheLease(client_, recover)->has_outcome_unknown());
  // A key of 2020.
  EXPECT_TRUE(client_.Call(SomeReserve("016f5e66-e800-7000-8000-000000000001"))->has_expired());

  ASSERT_TRUE(AwaitMetrics(daemon_, [](const MetricsPage& page) {
    return page.Value("idempotency_unknown_records") == 1;
  })) << "the gauges follow the store";
  const MetricsPage page = MetricsPage::Fetch(daemon_.metrics_address());
  std::set<std::string> expected_series = Golden();
  // They appear with the first refusal, with TLS, and with a key ring.
  for (auto series = expected_series.begin(); series != expected_series.end();) {
    const bool later = absl::StartsWith(*series, "idempotency_quota_exceeded_total ") ||
                       absl::StartsWith(*series, "idempotency_certificate_") ||
                       absl::StartsWith(*series, "idempotency_keyring_key_info ");
    series = later ? expected_series.erase(series) : std::next(series);
  }
  EXPECT_THAT(SeriesOf(page), ::testing::IsSupersetOf(expected_series));
  const std::vector<std::pair<std::string, double>> expected = {
      {"idempotency_verdicts_total{verdict=\"reserved\"}", 5},
      {"idempotency_verdicts_total{verdict=\"replay\"}", 1},
      {"idempotency_verdicts_total{verdict=\"mismatch\"}", 1},
      {"idempotency_verdicts_total{verdict=\"outcome_unknown\"}", 1},
      {"idempotency_verdicts_total{verdict=\"expired\"}", 1},
      {"idempotency_mismatches_total", 1},
      {"idempotency_take_overs_total", 1},
      {"idempotency_reservations_lost_total{method=\"Complete\"}", 1},
      {"idempotency_store_up", 1},
  };
  for (const auto& [series, value] : expected) EXPECT_EQ(page.Value(series), value) << series;
  EXPECT_GE(page.Value("idempotency_verdicts_total{verdict=\"in_flight\"}"), 1);
  EXPECT_GT(page.Value("idempotency_oldest_reservation_age_seconds"), 0);
  EXPECT_GE(page.Value("idempotency_rpc_duration_seconds_count{code=\"OK\",method=\"Get\"}") +
                page.Value("idempotency_rpc_duration_seconds_count{method=\"Get\",code=\"OK\"}"),
            1);
}

TEST_F(DaemonService, LabelsParentAndCheckpointStayWithTheRecord) {
  ExpectItsContextAlongARecordsLife(client_);
}

// The drain waits for running calls: one that waits for an attempt is answered first.
TEST(DaemonStop, ACallThatWaitsForAnAttemptIsAnsweredAtOnce) {
  const TempFolder folder;
  DaemonProcess daemon("sqlite:" + folder.File("records.db"), {"--drain_timeout=60s"});
  std::optional<ServiceClient> client(daemon.address());
  v1::ReserveRequest request = ReserveFor("slow", 0);
  request.mutable_lease()->set_seconds(55);
  TokenOf(client->Call(request));
  request.mutable_max_wait()->set_seconds(50);
  absl::StatusOr<v1::ReserveResponse> answer = absl::UnknownError("not answered");
  std::thread waiting([&] { answer = client->Call(request); });
  EXPECT_TRUE(AwaitMetrics(
      daemon, [](const MetricsPage& page) { return page.Value("idempotency_waiters") == 1; }));
  const auto signalled = Clock::now();
  daemon.process().Signal(SIGTERM);
  waiting.join();
  EXPECT_TRUE(answer.ok() && answer->has_in_flight()) << answer.status();
  // An idle one reads from its connection, and closes it, only every five seconds.
  client.reset();
  const auto exit = daemon.process().Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 0) << daemon.process().Stderr();
  EXPECT_LT(Clock::now() - signalled, kLong / 2);
}

TEST(DaemonSweep, ForgottenRecordsAreSweptAndLiveOnesStay) {
  const TempFolder folder;
  WriteForgottenRecords(folder.File("records.db"), 2);
  DaemonProcess daemon("sqlite:" + folder.File("records.db"), {"--sweep_interval=100ms"});
  ServiceClient client(daemon.address());
  const std::string live = TokenOf(client.Call(SomeReserve("live")));
  EXPECT_TRUE(client.Call(SomeComplete("live", live, "kept")).ok());
  ASSERT_TRUE(AwaitMetrics(daemon, [](const MetricsPage& page) {
    return page.Value("idempotency_swept_records_total") == 2;
  }));
  EXPECT_EQ(client.Call(SomeReserve("live"))->replay().reply().body(), "kept");
  const MetricsPage page = MetricsPage::Fetch(daemon.metrics_address());
  EXPECT_GE(page.Value("idempotency_sweep_step_duration_seconds_count"), 1);
  EXPECT_EQ(page.Value("idempotency_sweep_errors_total"), 0);
  EXPECT_EQ(page.Value("idempotency_sweep_interval_seconds"), 0.1);
  EXPECT_EQ(page.Value("idempotency_swept_records_total"), 2);
}

// On Postgres.

class DaemonsOnPostgres : public ::testing::Test {
 protected:
  DaemonsOnPostgres() { MigrateStore(cluster_->url()); }

  std::unique_ptr<PostgresConnection> Connect() {
    PostgresOptions options;
    options.url = cluster_->url();
    return PostgresConnection::Open(options, watchdog_).value();
  }

  SocketWatchdog watchdog_;
  std::unique_ptr<PostgresCluster> cluster_ = PostgresCluster::Create({/*fsync=*/false}).value();
};

TEST_F(DaemonsOnPostgres, LabelsParentAndCheckpointStayWithTheRecord) {
  const DaemonProcess daemon(cluster_->url());
  ExpectItsContextAlongARecordsLife(ServiceClient(daemon.address()));
}

TEST_F(DaemonsOnPostgres, ACompletionByAnotherReplicaWakesTheWaiter) {
  DaemonProcess first(cluster_->url());
  DaemonProcess second(cluster_->url());
  const ServiceClient runner(first.address());
  const ServiceClient waiter(second.address());
  std::vector<std::chrono::milliseconds> delays;
  for (int round = 0; round < 5; ++round) {
    const std::string key = absl::StrCat("waited-for-", round);
    const std::string token = TokenOf(runner.Call(SomeReserve(key)));
    Clock::time_point woken;
    std::thread waiting([&] {
      v1::ReserveRequest request = SomeReserve(key);
      request.mutable_max_wait()->set_seconds(20);
      const auto response = waiter.Call(request);
      woken = Clock::now();
      EXPECT_TRUE(response.ok() && response->has_replay()) << response.status();
    });
    const bool waits = AwaitMetrics(
        second, [](const MetricsPage& page) { return page.Value("idempotency_waiters") == 1; });
    EXPECT_TRUE(waits);
    EXPECT_TRUE(runner.Call(SomeComplete(key, token, "body")).ok());
    const auto completed = Clock::now();
    waiting.join();
    delays.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(woken - completed));
  }
  std::sort(delays.begin(), delays.end());
  std::cout << "woken after " << delays.front().count() << " to " << delays.back().count()
            << " ms\n";
  // Not at the end of max_wait. in_flight_waiters_test has the pauses between its reads.
  EXPECT_LT(delays.back(), std::chrono::seconds(10));
}

TEST_F(DaemonsOnPostgres, SigtermFinishesWhatRuns) {
  DaemonProcess daemon(cluster_->url());
  const ServiceClient client(daemon.address());
  std::optional<HealthWatch> health(daemon.address());
  ASSERT_TRUE(health->AwaitServing(true));
  const std::string token = TokenOf(client.Call(SomeReserve("slow")));

  // Load that continues until it is refused, and keeps a list of the acknowledged keys.
  constexpr int kCallers = 4;
  std::array<std::vector<std::string>, kCallers> acknowledged;
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      const ServiceClient caller(daemon.address());
      for (int n = 0;; ++n) {
        const std::string key = absl::StrCat("load-", c, "-", n);
        const auto reserved = caller.Call(SomeReserve(key));
        const absl::Status status =
            reserved.ok()
                ? caller.Call(SomeComplete(key, reserved->reserved().reservation_token(), key))
                      .status()
                : reserved.status();
        if (!status.ok()) {
          // gRPC cancels a call that was in transit when the server closed.
          EXPECT_THAT(status.code(), ::testing::AnyOf(absl::StatusCode::kUnavailable,
                                                      absl::StatusCode::kCancelled))
              << status.message();
          return;
        }
        acknowledged[c].push_back(key);
      }
    });
  }
  EXPECT_TRUE(AwaitMetrics(daemon, [](const MetricsPage& page) {
    return page.Value("idempotency_verdicts_total{verdict=\"reserved\"}") > 40;
  }));

  // Its row is locked, so that a completion is under way when the signal arrives.
  const auto holder = Connect();
  EXPECT_TRUE(
      holder->ExecuteScript("BEGIN; SELECT FROM idempotency.records WHERE key = 'slow' FOR UPDATE")
          .ok());
  absl::Status slow = absl::UnknownError("not answered");
  std::thread completing([&] { slow = client.Call(SomeComplete("slow", token, "body")).status(); });
  const auto looker = Connect();
  const auto deadline = Clock::now() + kLong;
  const auto waits = [&] {
    const auto blocked = looker->ExecuteScript(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    return blocked.ok() && blocked->Text(0, 0) != "0";
  };
  while (!waits() && Clock::now() < deadline) {
  }
  daemon.process().Signal(SIGTERM);
  EXPECT_TRUE(health->AwaitServing(false)) << "it says so before it ends";
  // A watch is a call that never ends.
  health.reset();
  EXPECT_TRUE(holder->ExecuteScript("COMMIT").ok());
  completing.join();
  EXPECT_TRUE(slow.ok()) << slow;
  for (std::thread& caller : callers) caller.join();
  const auto exit = daemon.process().Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 0) << daemon.process().Stderr();

  DaemonProcess next(cluster_->url());
  const ServiceClient again(next.address());
  EXPECT_TRUE(again.Call(SomeReserve("slow"))->has_replay());
  for (const auto& keys : acknowledged) {
    EXPECT_FALSE(keys.empty());
    for (const std::string& key : keys) {
      const auto replay = again.Call(SomeReserve(key));
      ASSERT_TRUE(replay.ok() && replay->has_replay()) << key << ": " << replay.status();
      EXPECT_EQ(replay->replay().reply().body(), key);
    }
  }
}

}  // namespace
}  // namespace idempotency::internal::testing
