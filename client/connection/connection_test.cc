// What every Connection over a channel promises, in sessions and in unary calls.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/connection/not_connected.h"
#include "client/connection/transport_error_reporter.h"
#include "client/testing/fake_service.h"
#include "client/testing/log_lines.h"
#include "core/answer_kind.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "tests/support/refusing_listener.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using Kind = ConnectionOptions::Kind;
using testing::Dial;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::FakeService;
using ::testing::HasSubstr;
using testing::HeldPort;
using testing::LogLines;
using ::testing::Not;
using testing::RefusingListener;
using testing::Serve;
using ::testing::StartsWith;

Connection::Deadline In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

v1::ReserveRequest RequestWithKey(const std::string& key) {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key(key);
  return request;
}

// Sends through `method` and waits for the answer.
template <typename Request, typename Response>
absl::StatusOr<Response> Send(Connection& connection,
                              void (Connection::*method)(const Request&, Connection::Deadline,
                                                         Connection::Callback<Response>),
                              const Request& request,
                              Connection::Deadline deadline = In(seconds(10))) {
  std::promise<absl::StatusOr<Response>> answer;
  (connection.*method)(request, deadline, [&](absl::StatusOr<Response> response) {
    answer.set_value(std::move(response));
  });
  return answer.get_future().get();
}

void ExpectStoreUnavailable(const absl::Status& status, AnswerKind kind = AnswerKind::kNone) {
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable) << status;
  EXPECT_EQ(KindOfAnswer(status), kind);
  EXPECT_TRUE(DetailsOf(status).retry_delay.has_value());
  EXPECT_THAT(status.message(), HasSubstr("repeat the call with the same tokens"));
}

class ConnectionTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    server_ = Serve(service_, port_);
    ASSERT_NE(server_, nullptr);
    channel_ = Dial(port_.number());
    connection_ = Connect(channel_);
  }
  void TearDown() override {
    connection_.reset();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + seconds(1));
  }

  std::unique_ptr<Connection> Connect(std::shared_ptr<grpc::Channel> channel) {
    ConnectionOptions options;
    options.kind = GetParam();
    options.log = log_.Sink();
    return MakeConnection(std::move(channel), options);
  }

  LogLines log_;
  FakeService service_;
  const HeldPort port_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Connection> connection_;
};

// Where a session has a record of what it sent.
class UnaryConnectionTest : public ConnectionTest {};

TEST_P(ConnectionTest, EveryOperationReachesItsMethod) {
  auto reserved = Send(*connection_, &Connection::Reserve, RequestWithKey("k"));
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  EXPECT_EQ(reserved->record_id(), "k");
  EXPECT_EQ(reserved->reserved().attempt(), 7u);

  v1::CompleteRequest complete;
  complete.mutable_reply()->set_code(5);
  auto completed = Send(*connection_, &Connection::Complete, complete);
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->completed_at().seconds(), 5);

  EXPECT_TRUE(Send(*connection_, &Connection::Release, v1::ReleaseRequest()).ok());

  v1::ExtendRequest extend;
  extend.mutable_lease()->set_seconds(9);
  auto extended = Send(*connection_, &Connection::Extend, extend);
  ASSERT_TRUE(extended.ok()) << extended.status();
  EXPECT_EQ(extended->lease_remaining().seconds(), 9);
}

TEST_P(ConnectionTest, RepliesOverGrpcsDefaultLimitArrive) {
  auto record = Send(*connection_, &Connection::Get, v1::GetRequest());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->record().reply().body().size(), std::size_t{5 << 20});
}

TEST_P(ConnectionTest, CatalogueErrorsPassThrough) {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(3);
  const absl::Status error = MakeError(Reason::kQuotaExceeded, "slow down", details);
  service_.FailWith(ToGrpcStatus(error));
  const absl::Status seen = Send(*connection_, &Connection::Reserve, RequestWithKey("k")).status();
  EXPECT_EQ(seen.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(seen), Reason::kQuotaExceeded);
  EXPECT_EQ(DetailsOf(seen).retry_delay, absl::Seconds(3));
  EXPECT_EQ(seen.message(), "slow down");
}

TEST_P(ConnectionTest, AStatusWithoutAReasonIsStoreUnavailableWithoutItsText) {
  service_.FailWith(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "secret.host:443"));
  const absl::Status seen = Send(*connection_, &Connection::Reserve, RequestWithKey("k")).status();
  ExpectStoreUnavailable(seen, AnswerKind::kRefused);
  EXPECT_THAT(seen.message(), HasSubstr("status code 7"));
  EXPECT_THAT(seen.message(), Not(HasSubstr("secret.host")));
}

TEST_P(ConnectionTest, ACallOverARefusedConnectionIsReportedAsUnsent) {
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  for (int call = 0; call < 3; ++call) {
    const absl::Status seen =
        Send(*connection_, &Connection::Reserve, RequestWithKey("k"), In(seconds(60))).status();
    ExpectStoreUnavailable(seen);
    // Only gRPC could determine whether a unary call that it got was sent.
    const bool certain = GetParam() == Kind::kSession || call > 0;
    EXPECT_EQ(IsNotConnected(seen), certain) << "call " << call << ": " << seen;
  }
}

// Earlier answers came over a connection: this call may have reached the server too.
TEST_P(ConnectionTest, ACallThatFailsOnceOthersWereAnsweredMayHaveArrived) {
  ASSERT_TRUE(Send(*connection_, &Connection::Reserve, RequestWithKey("k")).ok());
  service_.KeepReserveUnanswered();
  std::promise<absl::Status> answer;
  connection_->Reserve(RequestWithKey("k"), In(seconds(60)),
                       [&](const auto& response) { answer.set_value(response.status()); });
  ASSERT_TRUE(service_.WaitUntilHeld(1));
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  const absl::Status seen = answer.get_future().get();
  ExpectStoreUnavailable(seen);
  EXPECT_FALSE(IsNotConnected(seen)) << seen;
}

TEST_P(UnaryConnectionTest, TheFirstCallThatFailsAfterAnAnswerIsNotReportedAsUnsent) {
  ASSERT_TRUE(Send(*connection_, &Connection::Reserve, RequestWithKey("k")).ok());
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  const absl::Status seen =
      Send(*connection_, &Connection::Reserve, RequestWithKey("k"), In(seconds(60))).status();
  ExpectStoreUnavailable(seen);
  EXPECT_FALSE(IsNotConnected(seen)) << seen;
}

// The daemon returned, received calls, and is gone again before they end: by then the channel
// has lost its connection.
TEST_P(UnaryConnectionTest, ACallThatArrivedIsNotReportedAsUnsentBecauseTheDaemonLeftAgain) {
  constexpr std::size_t kCalls = 8;
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  const auto channel = Dial(port_.number());
  const auto connection = Connect(channel);
  ExpectStoreUnavailable(Send(*connection, &Connection::Reserve, RequestWithKey("k")).status());
  server_ = Serve(service_, port_);
  ASSERT_NE(server_, nullptr);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + seconds(10)));
  service_.KeepReserveUnanswered();
  std::promise<absl::Status> answers[kCalls];
  for (auto& answer : answers) {
    connection->Reserve(RequestWithKey("k"), In(seconds(60)), [&](const auto& response) {
      // The calls that end after this one find the connection lost.
      const auto patience = std::chrono::system_clock::now() + seconds(10);
      grpc_connectivity_state state = channel->GetState(false);
      while (state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
             channel->WaitForStateChange(state, patience)) {
        state = channel->GetState(false);
      }
      answer.set_value(response.status());
    });
  }
  ASSERT_TRUE(service_.WaitUntilHeld(kCalls));
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  for (auto& answer : answers) {
    const absl::Status seen = answer.get_future().get();
    ExpectStoreUnavailable(seen);
    EXPECT_FALSE(IsNotConnected(seen)) << seen;
  }
}

// The first call of all, and its operation may have been applied.
TEST_P(ConnectionTest, AServerThatIsThereAndFailsWasReached) {
  service_.FailWith(grpc::Status(grpc::StatusCode::UNAVAILABLE, "behind it"));
  const absl::Status seen = Send(*connection_, &Connection::Reserve, RequestWithKey("k")).status();
  ExpectStoreUnavailable(seen);
  EXPECT_FALSE(IsNotConnected(seen)) << seen;
}

TEST_P(ConnectionTest, AnOperationOverTheChannelsSendLimitIsRefusedAndNoOther) {
  grpc::ChannelArguments arguments = IdempotencydChannelArguments();
  arguments.SetMaxSendMessageSize(64 * 1024);
  const auto limited = Connect(
      grpc::CreateCustomChannel(port_.address(), grpc::InsecureChannelCredentials(), arguments));
  ASSERT_TRUE(Send(*limited, &Connection::Reserve, RequestWithKey("before")).ok());
  v1::CompleteRequest complete;
  complete.mutable_reply()->set_body(std::string(128 * 1024, 'x'));
  const absl::Status refused =
      Send(*limited, &Connection::Complete, complete, In(seconds(30))).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid) << refused;
  EXPECT_TRUE(Send(*limited, &Connection::Reserve, RequestWithKey("after")).ok());
}

TEST_P(ConnectionTest, AStoppedServerIsReportedLongBeforeTheDeadline) {
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status seen =
      Send(*connection_, &Connection::Reserve, RequestWithKey("k"), In(seconds(60))).status();
  ExpectStoreUnavailable(seen);
  EXPECT_THAT(seen.message(), Not(HasSubstr("127.0.0.1")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST_P(ConnectionTest, ARestartedServerIsFoundAgainQuickly) {
  ASSERT_TRUE(Send(*connection_, &Connection::Reserve, RequestWithKey("k")).ok());
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  // Down until the pauses between the attempts have grown.
  ASSERT_TRUE(RefusingListener(port_.number()).AwaitAttempts(6));
  ExpectStoreUnavailable(Send(*connection_, &Connection::Reserve, RequestWithKey("k")).status());
  server_ = Serve(service_, port_);
  ASSERT_NE(server_, nullptr);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(channel_->WaitForConnected(std::chrono::system_clock::now() + seconds(10)));
  EXPECT_TRUE(Send(*connection_, &Connection::Reserve, RequestWithKey("k")).ok());
  // At most one backoff (1 s and 20 % of jitter) and the machine's own delays. By the defaults of
  // gRPC the next one would last for 8 s or longer.
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(6));
  EXPECT_THAT(log_.All(),
              ElementsAre(StartsWith("calls to idempotencyd fail"), "idempotencyd answers again"))
      << "in the application's log";
}

// As a server does that refuses the certificate of its client.
TEST(TransportErrorReporterTest, AConnectionThatIsClosedIsReportedWithTheLikelyCauses) {
  LogLines log;
  TransportErrorReporter reporter(ApplicationLog(log.Sink()));
  reporter.Report(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"));
  reporter.Answered();
  reporter.Report(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Connection refused"));
  EXPECT_THAT(log.All(), ElementsAre(AllOf(HasSubstr("14: Socket closed; "), HasSubstr("expired"),
                                           HasSubstr("handshake failed")),
                                     "idempotencyd answers again", EndsWith("Connection refused")));
}

TEST_P(ConnectionTest, TheDeadlineTravelsAndEndsTheCall) {
  service_.KeepReserveUnanswered();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status seen =
      Send(*connection_, &Connection::Reserve, RequestWithKey("k"), In(milliseconds(300))).status();
  const auto took = std::chrono::steady_clock::now() - start;
  ExpectStoreUnavailable(seen);
  EXPECT_THAT(seen.message(), HasSubstr("deadline"));
  EXPECT_GE(took, milliseconds(290));
  EXPECT_LT(took, seconds(5));
  ASSERT_TRUE(service_.WaitUntilHeld(1));
  EXPECT_LE(service_.TimeGiven(), milliseconds(301));
  EXPECT_GT(service_.TimeGiven(), milliseconds(0));
}

TEST_P(ConnectionTest, APassedDeadlineIsAnswered) {
  ExpectStoreUnavailable(
      Send(*connection_, &Connection::Reserve, RequestWithKey("k"), In(-seconds(1))).status());
}

TEST_P(ConnectionTest, AnInfiniteDeadlineIsOne) {
  EXPECT_TRUE(
      Send(*connection_, &Connection::Reserve, RequestWithKey("k"), Connection::Deadline::max())
          .ok());
}

TEST_P(ConnectionTest, DestructionAnswersWhatIsOutstanding) {
  constexpr std::size_t kCalls = 50;
  service_.KeepReserveUnanswered();
  Mutex mutex;
  std::vector<absl::Status> answers;
  for (std::size_t i = 0; i < kCalls; ++i) {
    connection_->Reserve(RequestWithKey("k"), In(seconds(60)),
                         [&](absl::StatusOr<v1::ReserveResponse> response) {
                           MutexLock lock(mutex);
                           answers.push_back(response.status());
                         });
  }
  ASSERT_TRUE(service_.WaitUntilHeld(kCalls));
  const auto start = std::chrono::steady_clock::now();
  connection_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  MutexLock lock(mutex);
  ASSERT_EQ(answers.size(), kCalls);
  for (const absl::Status& answer : answers) ExpectStoreUnavailable(answer);
}

TEST_P(ConnectionTest, AnExceptionOfACallbackIsLoggedAndHasNoOtherEffect) {
  constexpr std::size_t kCalls = 20;
  struct NoStandardException {};
  for (std::size_t i = 0; i < kCalls; ++i) {
    connection_->Reserve(RequestWithKey("k"), In(seconds(60)), [i](const auto& /*response*/) {
      if (i % 2 == 0) throw std::runtime_error("no place for it");
      throw NoStandardException{};
    });
  }
  connection_->Reserve(RequestWithKey("k"), In(-seconds(1)),
                       [](const auto& /*response*/) { throw std::runtime_error("no time"); });
  EXPECT_TRUE(Send(*connection_, &Connection::Reserve, RequestWithKey("k")).ok());
  std::promise<void> destroyed;
  std::thread destroying([&] {
    connection_.reset();
    destroyed.set_value();
  });
  // The destructor waits for every callback, for ever if one does not count as called.
  if (destroyed.get_future().wait_for(seconds(10)) != std::future_status::ready) std::abort();
  destroying.join();
  EXPECT_EQ(log_.Count("the callback of an operation threw"), kCalls + 1);
  EXPECT_EQ(log_.Count("the callback of an operation threw: no place for it"), kCalls / 2);
}

// The test does not wait for calls to arrive: some are cancelled before they are sent.
TEST_P(ConnectionTest, DestructionRightAfterSendingAnswersEveryCallOnce) {
  for (int round = 0; round < 20; ++round) {
    auto connection = Connect(Dial(port_.number()));
    Mutex mutex;
    int answered = 0;
    for (int i = 0; i < 20; ++i) {
      connection->Reserve(RequestWithKey("k"), In(seconds(60)),
                          [&](absl::StatusOr<v1::ReserveResponse>) {
                            MutexLock lock(mutex);
                            ++answered;
                          });
    }
    connection.reset();
    MutexLock lock(mutex);
    EXPECT_EQ(answered, 20);
  }
}

TEST_P(ConnectionTest, WorksOverAnInProcessChannel) {
  auto connection = Connect(server_->InProcessChannel(IdempotencydChannelArguments()));
  EXPECT_TRUE(Send(*connection, &Connection::Reserve, RequestWithKey("k")).ok());
}

std::string NameOf(const ::testing::TestParamInfo<Kind>& tested) {
  return tested.param == Kind::kSession ? "SessionConnection" : "Unary";
}

INSTANTIATE_TEST_SUITE_P(EveryKind, ConnectionTest, ::testing::Values(Kind::kSession, Kind::kUnary),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OfThese, UnaryConnectionTest, ::testing::Values(Kind::kUnary), NameOf);

}  // namespace
}  // namespace idempotency::internal
