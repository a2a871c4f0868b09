// The guard's replay cache with a real idempotencyd: the calls that it answers alone, the calls
// that it leaves to the store, and its reaction to changes in the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "google/protobuf/util/message_differencer.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/limits.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"
#include "tests/support/metrics_page.h"
#include "tests/support/service_client.h"

namespace idempotency::internal::testing {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr char kReplays[] = "idempotency_verdicts_total{verdict=\"replay\"}";

class GuardReplayCache : public GuardFixture {
 protected:
  static void TurnOn(ProbeServer::Options& options) {
    options.guard.replay_cache = ReplayCacheOptions();
    // On any slow machine: nothing expires during these tests.
    options.guard.replay_cache.max_age = absl::Minutes(10);
    // A daemon that hangs does not answer.
    options.guard.closing_timeout = absl::Milliseconds(100);
  }
  static void TurnOff(ProbeServer::Options& options) {
    TurnOn(options);
    options.guard.replay_cache.capacity_bytes = 0;
  }
  // From here on idempotencyd answers nothing.
  void StopDaemon() { daemon_->process().Freeze(); }
  // No verdict is available, and nothing runs. The caller stops waiting, and not the guard: with a
  // short timeout of the guard's, a busy machine would have no time for other calls.
  void ExpectNoVerdict(const ProbeClient& client, const std::string& key, std::int64_t amount = 1) {
    const int before = runs_;
    Call call;
    call.keys = {key};
    call.amount = amount;
    call.timeout = std::chrono::milliseconds(500);
    EXPECT_THAT(
        client.Send(call).status.error_code(),
        ::testing::AnyOf(grpc::StatusCode::DEADLINE_EXCEEDED, grpc::StatusCode::UNAVAILABLE));
    EXPECT_EQ(runs_, before);
  }
  double ReplaysOfTheDaemon() {
    return MetricsPage::Fetch(daemon_->metrics_address()).Value(kReplays);
  }
};

void ExpectReplayOf(const Outcome& first, Outcome retry) {
  EXPECT_TRUE(retry.replayed()) << retry.status.error_message();
  EXPECT_EQ(retry.status.error_code(), first.status.error_code());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(retry.initial_metadata, first.initial_metadata);
  retry.trailing_metadata.erase("idempotency-replayed");
  EXPECT_EQ(retry.trailing_metadata, first.trailing_metadata);
}

TEST_P(GuardReplayCache, AReplyThatWasRecordedHereIsReplayedWhileTheDaemonHangs) {
  ProbeServer& server = Serve(Counting(), TurnOn);
  const ProbeClient client(server.address());
  const Outcome first = client.Act("order-1");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  StopDaemon();
  ExpectReplayOf(first, client.Act("order-1"));
  ExpectReplayOf(first, client.Act("order-1"));
  // The daemon does hang, and calls that it must decide do not run.
  ExpectNoVerdict(client, "order-2");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(server.guard().replay_cache().hits, 2u);
}

TEST_P(GuardReplayCache, AReplayOfTheDaemonIsReplayedAgainWhileItHangs) {
  const auto elsewhere = MakeServer(Counting(), TurnOn);
  const Outcome first = ProbeClient(elsewhere->address()).Act("order-1");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  ProbeServer& server = Serve(Counting(), TurnOn);
  const ProbeClient client(server.address());
  ExpectReplayOf(first, client.Act("order-1"));
  EXPECT_EQ(server.guard().replay_cache().hits, 0u);
  StopDaemon();
  ExpectReplayOf(first, client.Act("order-1"));
  EXPECT_EQ(server.guard().replay_cache().hits, 1u);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardReplayCache, AnotherRequestUnderTheSameKeyIsTheStoresToRefuse) {
  ProbeServer& server = Serve(Counting(), TurnOn);
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("order-1").status.ok());
  EXPECT_TRUE(client.Act("order-1").replayed());
  EXPECT_EQ(client.Act("order-1", 7).reason(), Reason::kKeyReused);
  StopDaemon();
  ExpectNoVerdict(client, "order-1", 7);
  EXPECT_TRUE(client.Act("order-1").replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardReplayCache, TurnedOffTheStoreIsUsedEachTime) {
  ProbeServer& server = Serve(Counting(), TurnOff);
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("order-1").status.ok());
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(client.Act("order-1").replayed());
    EXPECT_EQ(ReplaysOfTheDaemon(), i);
  }
  StopDaemon();
  ExpectNoVerdict(client, "order-1");
  EXPECT_EQ(server.guard().replay_cache().hits, 0u);
  EXPECT_EQ(server.guard().replay_cache().misses, 0u);
}

TEST_P(GuardReplayCache, TurnedOnTheStoreIsNotUsedForRetries) {
  ProbeServer& server = Serve(Counting(), TurnOn);
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("order-1").status.ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.Act("order-1").replayed());
  EXPECT_EQ(ReplaysOfTheDaemon(), 0);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardReplayCache, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

// The guard's reservations with a cache on a clock of the test's, and the store's file.
class ReplayCacheAndStore : public ::testing::Test {
 protected:
  static constexpr absl::Duration kMaxAge = absl::Seconds(10);

  // In the guard's order: the cache first.
  v1::ReserveResponse Reserve(const std::string& key) {
    const v1::ReserveRequest request = SomeReserve(key);
    const auto known = reservations_.FindReplay(request);
    if (known != nullptr) return *known;
    std::promise<absl::StatusOr<ReserveAnswer>> answered;
    reservations_.Request(std::make_shared<const v1::ReserveRequest>(request), absl::ZeroDuration(),
                          reservations_.Now() + std::chrono::seconds(20),
                          [&](auto answer) { answered.set_value(std::move(answer)); });
    const absl::StatusOr<ReserveAnswer> answer = answered.get_future().get();
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer->response : v1::ReserveResponse();
  }
  void Complete(const std::string& key, const v1::ReserveResponse& grant) {
    Reservation::Grant held;
    held.request = std::make_shared<const v1::ReserveRequest>(SomeReserve(key));
    held.answer = std::make_shared<const v1::ReserveResponse>(grant);
    held.lease = limits::kDefaultLease;
    held.lease_deadline = reservations_.Now() + std::chrono::seconds(20);
    auto reply = std::make_unique<v1::Reply>();
    reply->set_body("reply");
    std::promise<absl::Status> answered;
    reservations_.Hold(std::move(held))->Complete(std::move(reply), [&](const auto& answer) {
      answered.set_value(answer.status());
    });
    const absl::Status status = answered.get_future().get();
    EXPECT_TRUE(status.ok()) << status;
  }
  // Another party's change to the store, unnoticed by any guard.
  void DeleteAllRecords() {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    sqlite3_busy_timeout(database, 10000);
    EXPECT_EQ(sqlite3_exec(database, "DELETE FROM records", nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    EXPECT_GT(sqlite3_changes(database), 0);
    sqlite3_close(database);
  }

  TempFolder folder_;
  const std::string file_ = folder_.File("records.db");
  DaemonProcess daemon_{"sqlite:" + file_};
  ManualClock clock_;
  std::shared_ptr<ReplayCache> cache_ = std::make_shared<ReplayCache>(
      ReplayCacheOptions{ReplayCacheOptions().capacity_bytes, kMaxAge}, clock_);
  ReservationClient reservations_{
      MakeConnection(grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials())),
      absl::Seconds(20), absl::Seconds(5), cache_};
};

TEST_F(ReplayCacheAndStore, TheAnswerIsTheServicesFieldByField) {
  Complete("order-1", Reserve("order-1"));
  const v1::ReserveResponse kept = Reserve("order-1");
  EXPECT_EQ(cache_->counters().hits, 1u);
  const auto stored = ServiceClient(daemon_.address()).Call(SomeReserve("order-1"));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(MessageDifferencer::Equals(kept, *stored)) << kept.ShortDebugString() << "\n"
                                                         << stored->ShortDebugString();
}

TEST_F(ReplayCacheAndStore, ADeletedRecordIsFollowedWithinMaxAge) {
  Complete("recorded-here", Reserve("recorded-here"));
  const ServiceClient elsewhere(daemon_.address());
  const auto grant = elsewhere.Call(SomeReserve("recorded-elsewhere"));
  ASSERT_TRUE(grant.ok()) << grant.status();
  ASSERT_TRUE(
      elsewhere
          .Call(SomeComplete("recorded-elsewhere", grant->reserved().reservation_token(), "reply"))
          .ok());
  EXPECT_TRUE(Reserve("recorded-elsewhere").has_replay());
  DeleteAllRecords();
  clock_.Advance(kMaxAge - absl::Milliseconds(1));
  EXPECT_TRUE(Reserve("recorded-here").has_replay());
  EXPECT_TRUE(Reserve("recorded-elsewhere").has_replay());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Reserve("recorded-here").has_reserved());
  EXPECT_TRUE(Reserve("recorded-elsewhere").has_reserved());
}

}  // namespace
}  // namespace idempotency::internal::testing
