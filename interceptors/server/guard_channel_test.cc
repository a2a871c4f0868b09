// A guarded server on a real port, and conditions outside the guard: a daemon that is not
// running, deadlines that no clock can represent.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/testing/fake_connection.h"
#include "client/testing/fake_service.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "interceptors/server/testing/raw_call.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using SteadyClock = std::chrono::steady_clock;

constexpr char kCharge[] = "/idempotency.testdata.Till/Charge";
// The verdict timeout of these tests; "at once" is far below it on any machine.
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr std::chrono::seconds kAtOnce{20};

class CountingTill final : public Till::Service {
 public:
  grpc::Status Charge(grpc::ServerContext*, const ChargeRequest*, ChargeReply* reply) override {
    reply->set_charge_id(absl::StrCat("ch_", ++runs_));
    return grpc::Status::OK;
  }
  int runs() const { return runs_; }

 private:
  std::atomic<int> runs_{0};
};

class GuardChannelTest : public ::testing::TestWithParam<ConnectionOptions::Kind> {
 protected:
  GuardChannelTest() {
    options_.name_space = "tills";
    options_.scope = SharedScope("everybody");
    options_.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
    options_.verdict_timeout = kPatience;
    options_.connection.kind = GetParam();
  }
  ~GuardChannelTest() override {
    if (guard_ != nullptr) guard_->Close();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  void Serve(std::unique_ptr<ServerGuard> guard) {
    guard_ = std::move(guard);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    ASSERT_TRUE(guard_->Protect<Till>(builder, &till_).ok());
    ASSERT_TRUE(guard_->Install(builder).ok());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void StopServing() {
    guard_->Close();
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    guard_.reset();
  }
  std::unique_ptr<ServerGuard> GuardOver(const testing::HeldPort& daemon_port) {
    return ServerGuard::Create(testing::Dial(daemon_port.number()), options_).value();
  }
  grpc::Status Charge() {
    const auto stub = Till::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.AddMetadata(std::string(kKeyMetadata), "order-1");
    ChargeReply reply;
    return stub->Charge(&context, ChargeRequest(), &reply);
  }

  CountingTill till_;
  GuardOptions options_;
  std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  // Refuses connections until a test starts a server there.
  const testing::HeldPort daemon_port_;
};

TEST_P(GuardChannelTest, WithoutADaemonCallsAreRefusedAtOnceWithARetryTime) {
  options_.methods[kCharge].adjust = [](MethodPolicy& policy) {
    policy.in_flight = MethodPolicy::InFlight::kWait;
    policy.max_wait = absl::Seconds(60);
  };
  Serve(GuardOver(daemon_port_));
  for (int call = 0; call < 3; ++call) {
    const auto start = SteadyClock::now();
    const absl::Status refused = FromGrpcStatus(Charge());
    EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable) << refused;
    EXPECT_TRUE(DetailsOf(refused).retry_delay.has_value());
    EXPECT_LT(SteadyClock::now() - start, kAtOnce) << "call " << call;
  }
  EXPECT_EQ(till_.runs(), 0);
}

TEST_P(GuardChannelTest, WithoutADaemonCallsFailOpenAtOnceWhereTheyMay) {
  options_.methods[kCharge].adjust = [](MethodPolicy& policy) { policy.fail_open = true; };
  Serve(GuardOver(daemon_port_));
  const auto start = SteadyClock::now();
  EXPECT_TRUE(Charge().ok());
  EXPECT_LT(SteadyClock::now() - start, kAtOnce);
  EXPECT_EQ(till_.runs(), 1);
  EXPECT_EQ(guard_->calls_failed_open(), 1u);
}

// Counts lines that bypass the application's logger.
class CountingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  int lines() const { return lines_; }

 protected:
  void sink_it_(const spdlog::details::log_msg&) override { ++lines_; }
  void flush_() override {}

 private:
  std::atomic<int> lines_{0};
};

TEST_P(GuardChannelTest, AStartWithoutADaemonIsOneLineOfTheApplicationsLog) {
  std::atomic<int> lines{0};
  options_.log = [&lines](LogSeverity severity, std::string_view line) {
    if (line.rfind("calls to idempotencyd fail", 0) != 0) return;
    EXPECT_EQ(severity, LogSeverity::kWarning);
    ++lines;
  };
  const auto sink = std::make_shared<CountingSink>();
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  Serve(GuardOver(daemon_port_));
  // Without a call.
  const auto give_up = SteadyClock::now() + kAtOnce;
  while (lines == 0 && SteadyClock::now() < give_up) {
    guard_->WaitUntilReady(absl::Milliseconds(20)).IgnoreError();
  }
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(Charge().ok());
  StopServing();
  spdlog::set_default_logger(before);
  EXPECT_EQ(lines, 1);
  EXPECT_EQ(sink->lines(), 0) << "of the guard and of its connection";
}

TEST_P(GuardChannelTest, IsReadyOnceADaemonAnswers) {
  const auto guard = GuardOver(daemon_port_);
  EXPECT_EQ(ReasonOf(guard->WaitUntilReady(absl::Milliseconds(300))), Reason::kStoreUnavailable);
  testing::FakeService service;
  const auto server = testing::Serve(service, daemon_port_);
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(guard->WaitUntilReady(kPatience).ok());
  server->Shutdown(std::chrono::system_clock::now());
}

TEST_P(GuardChannelTest, IsNotReadyForADaemonThatRefusesIt) {
  testing::FakeService service;
  service.FailWith(ToGrpcStatus(InvalidField("record_key.namespace", "is not served here")));
  const auto server = testing::Serve(service, daemon_port_);
  const auto start = SteadyClock::now();
  const auto guard = GuardOver(daemon_port_);
  EXPECT_EQ(ReasonOf(guard->WaitUntilReady(kPatience)), Reason::kRequestInvalid);
  EXPECT_LT(SteadyClock::now() - start, kAtOnce);
  server->Shutdown(std::chrono::system_clock::now());
}

// The value that Go sends for a context without a deadline, and the largest of all.
TEST_P(GuardChannelTest, AnUnrepresentableDeadlineIsIgnoredAndNotTreatedAsPassed) {
  Serve(ServerGuard::Create(std::make_unique<FakeConnection>(), options_).value());
  int calls = 0;
  for (const char* timeout : {"2562047H", "99999999H", "1H"}) {
    EXPECT_TRUE(RawCallGetsAMessage(
        port_, kCharge, ChargeRequest().SerializeAsString(),
        {{"grpc-timeout", timeout}, {std::string(kKeyMetadata), absl::StrCat("key-", timeout)}}))
        << timeout;
    EXPECT_EQ(till_.runs(), ++calls) << timeout;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GuardChannelTest,
                         ::testing::Values(ConnectionOptions::Kind::kSession,
                                           ConnectionOptions::Kind::kUnary));

}  // namespace
}  // namespace idempotency::internal
