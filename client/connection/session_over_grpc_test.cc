// Sessions over gRPC, and their possible failures.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/connection/session_connection.h"
#include "client/connection/session_stream.h"
#include "client/connection/unary_connection.h"
#include "client/testing/fake_service.h"
#include "client/testing/log_lines.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AnswerAsUsual;
using ::testing::Contains;
using testing::Dial;
using ::testing::ElementsAre;
using testing::FakeService;
using testing::FakeSession;
using testing::HeldPort;
using testing::LogLines;
using testing::Serve;
using ::testing::StartsWith;

using Reserved = absl::StatusOr<v1::ReserveResponse>;

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "the stream broke");

Connection::Deadline In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

void Stop(std::unique_ptr<grpc::Server>& server) {
  if (server) server->Shutdown(std::chrono::system_clock::now());
  server.reset();
}

v1::ReserveRequest RequestWithKey(const std::string& key) {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key(key);
  return request;
}

std::future<Reserved> Send(Connection& connection, const std::string& key,
                           Connection::Deadline deadline = In(seconds(20))) {
  auto answer = std::make_shared<std::promise<Reserved>>();
  std::future<Reserved> future = answer->get_future();
  connection.Reserve(RequestWithKey(key), deadline,
                     [answer](Reserved response) { answer->set_value(std::move(response)); });
  return future;
}

class SessionOverGrpcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = Serve(service_, port_);
    ASSERT_NE(server_, nullptr);
    connection_ = MakeSessionConnection(Dial(port_.number()), {}, ApplicationLog(log_.Sink()));
  }
  void TearDown() override {
    connection_.reset();
    Stop(server_);
  }

  LogLines log_;
  FakeService service_;
  const HeldPort port_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(SessionOverGrpcTest, ManyOperationsShareOneStreamAndAreFramedTogether) {
  constexpr int kOperations = 2000;
  std::vector<std::future<Reserved>> answers;
  for (int i = 0; i < kOperations; ++i) {
    answers.push_back(Send(*connection_, absl::StrCat("k", i)));
  }
  for (int i = 0; i < kOperations; ++i) {
    const Reserved answer = answers[i].get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->record_id(), absl::StrCat("k", i));
  }
  EXPECT_EQ(service_.sessions_opened(), 1);
  EXPECT_EQ(service_.unary_calls(), 0);
  EXPECT_LT(service_.frames().size(), std::size_t{kOperations});
}

// The stream is cut when the operation has arrived, before and after its effect: the caller notices
// neither, and the server receives one token.
class CutStream : public SessionOverGrpcTest, public ::testing::WithParamInterface<bool> {};

TEST_P(CutStream, TheOperationIsRepeatedUnderItsToken) {
  const bool answered_first = GetParam();
  Mutex mutex;
  std::vector<std::string> tokens;
  service_.SetScript([&](FakeSession& session, const auto& operation, auto& response) {
    MutexLock lock(mutex);
    tokens.push_back(operation.reserve().request_token());
    if (tokens.size() > 1) return false;
    // An answer that cannot be sent any more.
    if (answered_first) AnswerAsUsual(operation, response);
    session.End(kBroken);
    return true;
  });
  const Reserved answer = Send(*connection_, "k").get();
  EXPECT_TRUE(answer.ok()) << answer.status();
  MutexLock lock(mutex);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_FALSE(tokens[0].empty());
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(service_.sessions_opened(), 2);
}

INSTANTIATE_TEST_SUITE_P(BeforeAndAfter, CutStream, ::testing::Bool());

TEST_F(SessionOverGrpcTest, ADeadlineIsSentToTheServer) {
  service_.KeepReserveUnanswered();
  const Reserved answer = Send(*connection_, "k", In(milliseconds(100))).get();
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(service_.WaitUntil([&] { return service_.cancels() == 1; }));
}

// A listener that accepts connections and never sends a byte.
TEST_F(SessionOverGrpcTest, ADeadlineIsKeptWhileConnecting) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(listener, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  grpc::ChannelArguments patient;
  patient.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 60'000);  // the time for one attempt to connect
  auto connection = MakeSessionConnection(
      grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                                grpc::InsecureChannelCredentials(), patient));
  const auto start = std::chrono::steady_clock::now();
  const Reserved answer = Send(*connection, "k", In(milliseconds(100))).get();
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  connection.reset();
  close(listener);
}

TEST_F(SessionOverGrpcTest, ADaemonFromBeforeSessionsIsServedByUnaryCalls) {
  service_.HaveSessions(false);
  std::vector<std::future<Reserved>> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(Send(*connection_, "k"));
  for (auto& answer : answers) {
    const Reserved got = answer.get();
    EXPECT_TRUE(got.ok()) << got.status();
  }
  EXPECT_EQ(service_.unary_calls(), 100);
  EXPECT_EQ(service_.sessions_opened(), 1);
  EXPECT_THAT(log_.All(), ElementsAre("idempotencyd does not support sessions: using unary calls"));
}

TEST_F(SessionOverGrpcTest, AnAnswerBeforeTheFirstFrameIsRefused) {
  service_.KeepFirstFrame();
  const Reserved answer = Send(*connection_, "k").get();
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  EXPECT_THAT(log_.All(), Contains(StartsWith("idempotencyd violated the session protocol")));
}

TEST_F(SessionOverGrpcTest, DestructionWhileStreamsBreakAnswersEveryCall) {
  service_.KeepReserveUnanswered();
  for (int round = 0; round < 20; ++round) {
    auto connection = MakeSessionConnection(Dial(port_.number()));
    std::vector<std::future<Reserved>> answers;
    for (int i = 0; i < 20; ++i) answers.push_back(Send(*connection, "k"));
    std::thread breaker([&] { service_.EndAll(kBroken); });
    connection.reset();
    breaker.join();
    for (auto& answer : answers) {
      ASSERT_EQ(answer.wait_for(seconds(0)), std::future_status::ready);
      EXPECT_EQ(ReasonOf(answer.get().status()), Reason::kStoreUnavailable);
    }
  }
}

// Cycles over two servers behind one name, while first one and then the other drains, stops, and
// starts again.
TEST_F(SessionOverGrpcTest, ARollingRestartIsNotSeen) {
  FakeService other_service;
  const HeldPort other_port;
  std::unique_ptr<grpc::Server> other = Serve(other_service, other_port);
  const auto channel =
      grpc::CreateCustomChannel(absl::StrCat("ipv4:", port_.address(), ",", other_port.address()),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
  auto connection = MakeSessionConnection(channel);
  auto unary = MakeUnaryConnection(channel);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        const Reserved answer = Send(*connection, "k").get();
        if (!answer.ok()) ADD_FAILURE() << answer.status();
        ++(answer.ok() ? answered : failed);
      }
    });
  }
  const auto restart = [&](FakeService& service, std::unique_ptr<grpc::Server>& server,
                           const HeldPort& port) {
    // The two are never down at once: unary calls, which alternate between them, show that the
    // client is connected to this one, and to the other one.
    for (FakeService* connected : {&service_, &other_service}) {
      const int calls = connected->unary_calls();
      ASSERT_TRUE(service_.WaitUntil([&] {
        Send(*unary, "k").wait();
        return connected->unary_calls() > calls;
      }));
    }
    v1::SessionResponse draining;
    draining.set_draining(true);
    service.SendToAll(draining);
    server->Shutdown(std::chrono::system_clock::now() + seconds(5));
    server = Serve(service, port);
    ASSERT_NE(server, nullptr);
    const int after = answered;
    service_.WaitUntil([&] { return answered > after + 50; });
  };
  for (int round = 0; round < 3; ++round) {
    restart(service_, server_, port_);
    restart(other_service, other, other_port);
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(answered, 300);
  EXPECT_GT(service_.sessions_opened(), 0);
  EXPECT_GT(other_service.sessions_opened(), 0);
  connection.reset();
  unary.reset();
  Stop(other);
}

// Signals the events of one stream.
class SignalledEvents final : public SessionStream::Events {
 public:
  void OnFrame(SessionStream& /*stream*/, v1::SessionResponse /*frame*/) override {}
  void OnWritten(SessionStream& /*stream*/, bool ok) override { written.set_value(ok); }
  void OnReadEnd(SessionStream& /*stream*/) override { read_ended.set_value(); }
  void OnEnd(SessionStream& /*stream*/, const grpc::Status& status) override {
    ended.set_value(status);
  }

  std::promise<bool> written;
  std::promise<void> read_ended;
  std::promise<grpc::Status> ended;
};

// The daemon received it and left before its first frame; nothing listens there any more when the
// stream ends.
TEST(SessionStreamTest, AStreamThatWroteHadAConnectionThoughTheDaemonIsGone) {
  FakeService service;
  service.KeepFirstFrame();
  const HeldPort port;
  auto server = Serve(service, port);
  ASSERT_NE(server, nullptr);
  const auto channel = Dial(port.number());
  SignalledEvents events;
  const auto stream = SessionStreamsOver(channel)(events);
  stream->Start();
  stream->Write("");
  EXPECT_TRUE(events.written.get_future().get());
  ASSERT_TRUE(service.WaitUntil([&] { return service.sessions_open() == 1; }));
  Stop(server);
  events.read_ended.get_future().wait();
  const auto patience = std::chrono::system_clock::now() + seconds(10);
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_TRANSIENT_FAILURE && channel->WaitForStateChange(state, patience)) {
    state = channel->GetState(/*try_to_connect=*/true);
  }
  ASSERT_EQ(state, GRPC_CHANNEL_TRANSIENT_FAILURE);
  stream->Release();
  EXPECT_EQ(events.ended.get_future().get().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(stream->had_connection());
}

}  // namespace
}  // namespace idempotency::internal
