// Limits and settings of namespaces at a real idempotencyd, over unary calls and sessions.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "core/wire_time.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/daemon_process.h"
#include "tests/support/metrics_page.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using std::chrono::steady_clock;

constexpr char kRules[] = R"(
identities { name: "machine" local: true }
rules { identity: "machine" namespaces: "*" permissions: [WRITE, READ] }
)";

class TenantsOverTheWire : public ::testing::TestWithParam<ConnectionOptions::Kind> {
 protected:
  static void SetUpTestSuite() { setenv("GRPC_VERBOSITY", "NONE", 1); }

  void WriteConfig(const std::string& namespaces) const {
    std::ofstream(folder_.File("new")) << kRules << namespaces;
    std::filesystem::rename(folder_.File("new"), folder_.File("config"));
  }
  void Serve(const std::string& namespaces) {
    WriteConfig(namespaces);
    daemon_ = std::make_unique<testing::DaemonProcess>(
        absl::StrCat("sqlite:", folder_.File("records.db")),
        std::vector<std::string>{absl::StrCat("--config=", folder_.File("config"))});
    connection_ = Connect();
  }
  std::unique_ptr<Connection> Connect() const {
    ConnectionOptions options;
    options.kind = GetParam();
    return MakeConnection(Channel(), options);
  }
  // A connection of its own.
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(daemon_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  bool AwaitLog(const std::string& event) const {
    const auto deadline = steady_clock::now() + std::chrono::seconds(30);
    while (!absl::StrContains(daemon_->process().Stderr(), event)) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // While a change of the file has no effect yet.
  bool AwaitReload() const { return AwaitLog("configuration replaced"); }

  bool AwaitWaiters(double waiters) const {
    const auto deadline = steady_clock::now() + std::chrono::seconds(30);
    while (testing::MetricsPage::Fetch(daemon_->metrics_address()).Value("idempotency_waiters") !=
           waiters) {
      if (steady_clock::now() > deadline) return false;
    }
    return true;
  }

  bool AwaitMeasured(const std::string& name_space, double records) const {
    const std::string series =
        absl::StrCat("idempotency_namespace_records{namespace=\"", name_space, "\"}");
    const auto deadline = steady_clock::now() + std::chrono::seconds(60);
    while (steady_clock::now() < deadline) {
      const auto page = testing::MetricsPage::Fetch(daemon_->metrics_address());
      const auto found = page.samples().find(series);
      if (found != page.samples().end() && found->second == records) return true;
    }
    return false;
  }

  using ReserveAnswer = std::future<absl::StatusOr<v1::ReserveResponse>>;
  static ReserveAnswer Send(Connection& connection, const v1::ReserveRequest& request) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<v1::ReserveResponse>>>();
    connection.Reserve(request, steady_clock::now() + std::chrono::seconds(30),
                       [answer](absl::StatusOr<v1::ReserveResponse> response) {
                         answer->set_value(std::move(response));
                       });
    return answer->get_future();
  }
  static v1::ReserveRequest RequestIn(const std::string& name_space, const std::string& key) {
    v1::ReserveRequest request = testing::SomeReserve(key);
    request.mutable_record_key()->set_namespace_(name_space);
    return request;
  }
  absl::StatusOr<v1::ReserveResponse> Reserve(const std::string& name_space,
                                              const std::string& key) {
    return Send(*connection_, RequestIn(name_space, key)).get();
  }
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(void (Connection::*method)(const Request&, Connection::Deadline,
                                                           Connection::Callback<Response>),
                                Request request, const std::string& name_space) {
    request.mutable_record_key()->set_namespace_(name_space);
    std::promise<absl::StatusOr<Response>> answer;
    (connection_.get()->*method)(
        request, steady_clock::now() + std::chrono::seconds(30),
        [&answer](absl::StatusOr<Response> response) { answer.set_value(std::move(response)); });
    return answer.get_future().get();
  }

  testing::TempFolder folder_;
  std::unique_ptr<testing::DaemonProcess> daemon_;
  std::unique_ptr<Connection> connection_;
};

void ExpectRefused(const absl::Status& status, const std::string& limit, absl::Duration min,
                   absl::Duration max) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ReasonOf(status), Reason::kQuotaExceeded) << status;
  const ErrorDetails details = DetailsOf(status);
  ASSERT_TRUE(details.retry_delay.has_value());
  EXPECT_GE(*details.retry_delay, min);
  EXPECT_LE(*details.retry_delay, max);
  EXPECT_EQ(details.metadata.at("limit"), limit);
}

// Two at once, then one in an hour.
TEST_P(TenantsOverTheWire, OverTheRateIsRefusedWithTheDelay) {
  Serve("namespaces { name: \"limited\" limits { max_rate: 0.000278 burst: 2 } }");
  const auto first = Reserve("limited", "1");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(Reserve("limited", "2").ok());
  ExpectRefused(Reserve("limited", "3").status(), "rate", absl::Minutes(55), absl::Minutes(61));
  ExpectRefused(Reserve("limited", "1").status(), "rate", absl::Minutes(55), absl::Minutes(61));
  ExpectRefused(Call(&Connection::Get, testing::SomeGet("1"), std::string("limited")).status(),
                "rate", absl::Minutes(55), absl::Minutes(61));
  // Admitted operations can end.
  const std::string& token = first->reserved().reservation_token();
  EXPECT_TRUE(Call(&Connection::Extend, testing::SomeExtend("1", token), "limited").ok());
  EXPECT_TRUE(
      Call(&Connection::Complete, testing::SomeComplete("1", token, "reply"), "limited").ok());
  // Others are not affected, listed or not.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Reserve("other", absl::StrCat(i)).ok());

  const auto page = testing::MetricsPage::Fetch(daemon_->metrics_address());
  EXPECT_EQ(page.Value("idempotency_namespace_operations_total{namespace=\"limited\"}"), 2);
  EXPECT_EQ(page.Value("idempotency_quota_exceeded_total{limit=\"rate\",namespace=\"limited\"}"),
            3);
  EXPECT_FALSE(absl::StrContains(page.text(), "namespace=\"other\""));
}

// As gRPC's own retries read it.
TEST_P(TenantsOverTheWire, ARefusalCarriesThePushback) {
  Serve("namespaces { name: \"limited\" limits { max_rate: 0.000278 burst: 1 } }");
  ASSERT_TRUE(Reserve("limited", "1").ok());
  const auto stub = v1::IdempotencyService::NewStub(Channel());
  grpc::ClientContext context;
  v1::ReserveResponse response;
  const grpc::Status status = stub->Reserve(&context, RequestIn("limited", "2"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto pushback = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, context.GetServerTrailingMetadata().end());
  EXPECT_GT(std::stol(std::string(pushback->second.data(), pushback->second.size())), 3'000'000);
}

TEST_P(TenantsOverTheWire, WaitingCallersTakePlacesAndAreLimited) {
  Serve(
      "namespaces { name: \"limited\" limits { max_in_flight: 2 } }\n"
      "namespaces { name: \"nowait\" limits { max_waiting: 0 } }");
  const auto owner = Reserve("limited", "held");
  ASSERT_TRUE(owner.ok()) << owner.status();
  v1::ReserveRequest waiting = RequestIn("limited", "held");
  waiting.mutable_max_wait()->set_seconds(30);
  ReserveAnswer waiter = Send(*connection_, waiting);
  ASSERT_TRUE(AwaitWaiters(1));
  // Half of the places are for callers that do not wait.
  EXPECT_TRUE(Reserve("limited", "another").ok());
  const auto second = Send(*connection_, waiting).get();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->has_in_flight()) << "the only place of a waiting caller is taken";
  ASSERT_TRUE(Call(&Connection::Complete,
                   testing::SomeComplete("held", owner->reserved().reservation_token(), "reply"),
                   "limited")
                  .ok());
  const auto replay = waiter.get();
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_TRUE(replay->has_replay());

  ASSERT_TRUE(Reserve("nowait", "held").ok());
  v1::ReserveRequest impatient = RequestIn("nowait", "held");
  impatient.mutable_max_wait()->set_seconds(30);
  const auto before = steady_clock::now();
  const auto answer = Send(*connection_, impatient).get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->has_in_flight());
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(20));
}

TEST_P(TenantsOverTheWire, ACallerThatLeavesReturnsItsPlace) {
  Serve("namespaces { name: \"limited\" limits { max_in_flight: 2 max_waiting: 1 } }");
  ASSERT_TRUE(Reserve("limited", "held").ok());
  auto leaving = Connect();
  v1::ReserveRequest waiting = RequestIn("limited", "held");
  waiting.mutable_max_wait()->set_seconds(60);
  ReserveAnswer waiter = Send(*leaving, waiting);
  ASSERT_TRUE(AwaitWaiters(1));
  // It is answered after this time only if it has a place.
  v1::ReserveRequest another = waiting;
  *another.mutable_max_wait() = ToWire(absl::Milliseconds(500));
  const auto waits = [&] {
    const auto before = steady_clock::now();
    const auto answer = Send(*connection_, another).get();
    EXPECT_TRUE(answer.ok() && answer->has_in_flight()) << answer.status();
    return steady_clock::now() - before >= std::chrono::milliseconds(500);
  };
  EXPECT_FALSE(waits());
  leaving.reset();
  EXPECT_FALSE(waiter.get().ok());
  const auto limit = steady_clock::now() + std::chrono::seconds(20);
  bool waited = false;
  while (!waited && steady_clock::now() < limit) waited = waits();
  EXPECT_TRUE(waited);
}

TEST_P(TenantsOverTheWire, OldKeysAreExpired) {
  const absl::Time now = absl::Now();
  Serve(absl::StrCat(
      "namespaces { name: \"restored\" not_before: \"",
      absl::FormatTime(absl::RFC3339_sec, now - absl::Minutes(30), absl::UTCTimeZone()),
      "\" }\nnamespaces { name: \"narrow\" window { seconds: 600 } }"));
  const auto verdict = [this](const std::string& name_space, const std::string& key) {
    const auto answer = Reserve(name_space, key);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->verdict_case() : v1::ReserveResponse::VERDICT_NOT_SET;
  };
  const std::string old = Uuid::TimeOrdered(now - absl::Hours(1)).ToString();
  const std::string recent = Uuid::TimeOrdered(now - absl::Minutes(5)).ToString();
  for (const std::string name_space : {"restored", "narrow"}) {
    EXPECT_EQ(verdict(name_space, old), v1::ReserveResponse::kExpired) << name_space;
    EXPECT_EQ(verdict(name_space, recent), v1::ReserveResponse::kReserved) << name_space;
    EXPECT_EQ(verdict(name_space, "no-time"), v1::ReserveResponse::kReserved) << name_space;
  }
  EXPECT_EQ(verdict("other", old), v1::ReserveResponse::kReserved);
}

// As the restore recipe writes it: one line, whatever the rest of the file is.
TEST_P(TenantsOverTheWire, NotBeforeOfTheFileIsOfEveryNamespace) {
  const absl::Time now = absl::Now();
  const std::string not_before =
      absl::FormatTime(absl::RFC3339_sec, now - absl::Minutes(30), absl::UTCTimeZone());
  Serve(absl::StrCat("namespaces { name: \"listed\" }\nnot_before: \"", not_before, "\"\n"));
  EXPECT_TRUE(AwaitLog("unknown keys from before not_before are expired"));
  const std::string old = Uuid::TimeOrdered(now - absl::Hours(1)).ToString();
  const std::string recent = Uuid::TimeOrdered(now - absl::Minutes(5)).ToString();
  for (const std::string name_space : {"listed", "other"}) {
    EXPECT_TRUE(Reserve(name_space, old).value().has_expired()) << name_space;
    EXPECT_TRUE(Reserve(name_space, recent).value().has_reserved()) << name_space;
  }
  WriteConfig("namespaces { name: \"listed\" }");
  ASSERT_TRUE(AwaitReload());
  EXPECT_TRUE(AwaitLog("not_before was removed from the configuration"));
  for (const std::string name_space : {"listed", "other"}) {
    EXPECT_TRUE(Reserve(name_space, old).value().has_reserved()) << name_space;
  }
}

// The entry is removed, or its name is mistyped.
TEST_P(TenantsOverTheWire, ALostShorterWindowOrPeerScopeIsWarnedOf) {
  Serve("namespaces { name: \"narrow\" window { seconds: 3600 } scope_from: PEER }");
  WriteConfig("namespaces { name: \"other\" }");
  ASSERT_TRUE(AwaitReload());
  EXPECT_TRUE(AwaitLog("windows were raised without a not_before"));
  EXPECT_TRUE(AwaitLog("scope_from: PEER was removed"));
}

// The file applies after the time that it names: records reserved in between have the former
// window.
TEST_P(TenantsOverTheWire, AWindowRaisedWithATimeBeforeItAppliesIsWarnedOf) {
  Serve("namespaces { name: \"narrow\" window { seconds: 3600 } }");
  WriteConfig(absl::StrCat("namespaces { name: \"narrow\" not_before: \"",
                           absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
                           "\" }"));
  ASSERT_TRUE(AwaitReload());
  EXPECT_TRUE(AwaitLog("windows were raised without a not_before after the change"));
}

// A record from before `not_before` that survived the restore is known as ever.
TEST_P(TenantsOverTheWire, ARecordThatExistsIsReplayedAfterARestore) {
  const std::string key = Uuid::TimeOrdered(absl::Now() - absl::Minutes(5)).ToString();
  Serve("namespaces { name: \"restored\" }");
  const auto reserved = Reserve("restored", key);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  ASSERT_TRUE(Call(&Connection::Complete,
                   testing::SomeComplete(key, reserved->reserved().reservation_token(), "reply"),
                   "restored")
                  .ok());
  WriteConfig(absl::StrCat(
      "namespaces { name: \"restored\" not_before: \"",
      absl::FormatTime(absl::RFC3339_sec, absl::Now() - absl::Minutes(1), absl::UTCTimeZone()),
      "\" }"));
  ASSERT_TRUE(AwaitReload());
  const std::string lost = Uuid::TimeOrdered(absl::Now() - absl::Minutes(5)).ToString();
  EXPECT_TRUE(Reserve("restored", lost).value().has_expired());
  EXPECT_TRUE(Reserve("restored", key).value().has_replay());
}

TEST_P(TenantsOverTheWire, RetentionHasBounds) {
  Serve("namespaces { name: \"short\" retention { max { seconds: 60 } default { seconds: 20 } } }");
  v1::ReserveRequest request = RequestIn("short", "long");
  request.mutable_retention()->set_seconds(61);
  EXPECT_EQ(ReasonOf(Send(*connection_, request).get().status()), Reason::kRequestInvalid);
  const auto page = testing::MetricsPage::Fetch(daemon_->metrics_address());
  EXPECT_EQ(page.Value("idempotency_quota_exceeded_total{limit=\"retention\",namespace=\"short\"}"),
            1);
  v1::ReserveRequest plain = RequestIn("short", "plain");
  plain.clear_retention();
  plain.clear_lease();
  const auto reserved = Send(*connection_, plain).get();
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  const auto record = Call(&Connection::Get, testing::SomeGet("plain"), std::string("short"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->record().expires_at().seconds() - record->record().created_at().seconds(), 20);
}

// The operation was recorded under other bounds: its retry gets the reply.
TEST_P(TenantsOverTheWire, TighterBoundsRefuseNoReplay) {
  Serve("namespaces { name: \"short\" retention { max { seconds: 3600 } } }");
  const auto request = [](const std::string& key) {
    v1::ReserveRequest request = RequestIn("short", key);
    request.mutable_retention()->set_seconds(600);
    return request;
  };
  const auto done = Send(*connection_, request("done")).get();
  ASSERT_TRUE(done.ok()) << done.status();
  ASSERT_TRUE(Send(*connection_, request("runs")).get().ok());
  ASSERT_TRUE(Call(&Connection::Complete,
                   testing::SomeComplete("done", done->reserved().reservation_token(), "reply"),
                   "short")
                  .ok());
  WriteConfig(
      "namespaces { name: \"short\" retention { max { seconds: 60 } default { seconds: 20 } } }");
  ASSERT_TRUE(AwaitReload());
  const auto replay = Send(*connection_, request("done")).get();
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_TRUE(replay->has_replay());
  const auto runs = Send(*connection_, request("runs")).get();
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_TRUE(runs->has_in_flight());
  EXPECT_EQ(ReasonOf(Send(*connection_, request("new")).get().status()), Reason::kRequestInvalid);
}

// Three records; a fourth is refused, and what exists is answered and completed as ever.
TEST_P(TenantsOverTheWire, OverTheQuotaOnlyExistingRecordsAreAnswered) {
  Serve("namespaces { name: \"limited\" limits { max_records: 3 } }");
  ASSERT_TRUE(AwaitMeasured("limited", 0));
  std::vector<std::string> tokens;
  for (int i = 0; i < 3; ++i) {
    const auto reserved = Reserve("limited", absl::StrCat(i));
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    tokens.push_back(reserved->reserved().reservation_token());
  }
  ExpectRefused(Reserve("limited", "new").status(), "number of records", absl::Seconds(10),
                absl::Seconds(10));
  EXPECT_TRUE(Reserve("limited", "0").value().has_in_flight());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Call(&Connection::Complete,
                     testing::SomeComplete(absl::StrCat(i), tokens[i], "reply"), "limited")
                    .ok());
    EXPECT_TRUE(Reserve("limited", absl::StrCat(i)).value().has_replay());
  }
  EXPECT_TRUE(Reserve("other", "new").ok());
  EXPECT_TRUE(AwaitMeasured("limited", 3));
  EXPECT_FALSE(Reserve("limited", "new").ok());
  WriteConfig("namespaces { name: \"limited\" limits { max_records: 4 } }");
  ASSERT_TRUE(AwaitReload());
  EXPECT_TRUE(Reserve("limited", "new").ok());
  EXPECT_FALSE(Reserve("limited", "newer").ok());
}

TEST_P(TenantsOverTheWire, RepliesCountAndAreStoredAllTheSame) {
  Serve("namespaces { name: \"limited\" limits { max_reply_bytes: 1000 } }");
  ASSERT_TRUE(AwaitMeasured("limited", 0));
  const auto first = Reserve("limited", "1");
  const auto second = Reserve("limited", "2");
  ASSERT_TRUE(first.ok() && second.ok());
  const std::string body(900, 'r');
  const auto complete = [&](const std::string& key, const v1::ReserveResponse& of) {
    return Call(&Connection::Complete,
                testing::SomeComplete(key, of.reserved().reservation_token(), body), "limited");
  };
  EXPECT_TRUE(complete("1", *first).ok());
  const auto third = Reserve("limited", "3");
  EXPECT_TRUE(third.ok());
  EXPECT_TRUE(complete("2", *second).ok());
  ExpectRefused(Reserve("limited", "4").status(), "bytes of replies", absl::Seconds(10),
                absl::Seconds(10));
  EXPECT_TRUE(complete("3", *third).ok());
  EXPECT_TRUE(Reserve("limited", "3").value().has_replay());
}

TEST_P(TenantsOverTheWire, AChangedLimitAppliesWithoutARestart) {
  Serve("namespaces { name: \"limited\" limits { max_rate: 0.000278 burst: 1 } }");
  ASSERT_TRUE(Reserve("limited", "1").ok());
  EXPECT_FALSE(Reserve("limited", "2").ok());
  WriteConfig("namespaces { name: \"limited\" limits { max_rate: 0.000278 burst: 4 } }");
  ASSERT_TRUE(AwaitReload());
  for (int i = 2; i < 6; ++i) EXPECT_TRUE(Reserve("limited", absl::StrCat(i)).ok()) << i;
  EXPECT_FALSE(Reserve("limited", "6").ok());
}

// Twenty callers of a guarded method, at ten a second: each of them succeeds, and none repeats
// without a pause.
TEST_P(TenantsOverTheWire, CallersOfAGuardKeepToTheDelay) {
  Serve("namespaces { name: \"probe\" limits { max_rate: 10 burst: 1 } }");
  testing::ProbeServer::Options options;
  options.channel = Channel();
  options.guard.connection.kind = GetParam();
  std::atomic<int> ran{0};
  options.handler = [&ran](grpc::ServerContextBase&, const testing::ActRequest&,
                           testing::ActReply&) {
    ++ran;
    return grpc::Status::OK;
  };
  testing::ProbeServer server(std::move(options));
  const auto stub = testing::Probe::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  constexpr int kCallers = 20;
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  std::atomic<int> tries{0};
  const auto began = steady_clock::now();
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      testing::ActReply reply;
      CallRetries retries;
      retries.budget = nullptr;
      const grpc::Status status = CallWithRetries(
          absl::StrCat("call-", i), began + std::chrono::seconds(60),
          [&](grpc::ClientContext& context) {
            ++tries;
            return stub->Act(&context, testing::ActRequest(), &reply);
          },
          retries);
      EXPECT_TRUE(status.ok()) << status.error_message();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ran, kCallers);
  EXPECT_GE(steady_clock::now() - began, std::chrono::milliseconds(1850));
  EXPECT_GT(tries, kCallers);
  // Without pauses there would be many thousands.
  EXPECT_LT(tries, 1000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TenantsOverTheWire,
                         ::testing::Values(ConnectionOptions::Kind::kUnary,
                                           ConnectionOptions::Kind::kSession),
                         [](const auto& test) {
                           return test.param == ConnectionOptions::Kind::kUnary ? "Unary"
                                                                                : "Session";
                         });

}  // namespace
}  // namespace idempotency::internal
