#include "client/unary_connection.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/channel_arguments.h"
#include "core/errors.h"
#include "core/grpc_status.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

Connection::Deadline In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

// idempotencyd's place in these tests: answers at once with what it was told
// to, or keeps Reserve calls unanswered until they are cancelled.
class FakeService final : public v1::IdempotencyService::CallbackService {
 public:
  void FailWith(grpc::Status status) {
    MutexLock lock(mutex_);
    failure_ = std::move(status);
  }
  void KeepReserveUnanswered() {
    MutexLock lock(mutex_);
    keep_ = true;
  }
  // False if fewer than `count` Reserve calls are held within 10 s.
  bool WaitUntilHeld(std::size_t count) {
    MutexLock lock(mutex_);
    const auto deadline = In(seconds(10));
    while (held_ < count) {
      if (!changed_.WaitUntil(lock, deadline)) return held_ >= count;
    }
    return true;
  }
  // How much time the last Reserve call was given, as the server saw it.
  std::chrono::system_clock::duration TimeGiven() {
    MutexLock lock(mutex_);
    return time_given_;
  }

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const v1::ReserveRequest* request,
                                    v1::ReserveResponse* response) override {
    MutexLock lock(mutex_);
    time_given_ = context->deadline() - std::chrono::system_clock::now();
    if (keep_) {
      ++held_;
      changed_.NotifyAll();
      return new HeldCall();
    }
    response->set_record_id(request->record_key().key());
    response->mutable_reserved()->set_attempt(7);
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override {
    MutexLock lock(mutex_);
    response->mutable_completed_at()->set_seconds(request->reply().code());
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context, const v1::ReleaseRequest*,
                                    v1::ReleaseResponse*) override {
    MutexLock lock(mutex_);
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const v1::ExtendRequest* request,
                                   v1::ExtendResponse* response) override {
    MutexLock lock(mutex_);
    *response->mutable_lease_remaining() = request->lease();
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetRequest*,
                                v1::GetResponse* response) override {
    MutexLock lock(mutex_);
    // Over gRPC's own limit of 4 MiB.
    response->mutable_record()->mutable_reply()->set_body(std::string(5 << 20, 'x'));
    return Answer(context);
  }

 private:
  // Ends when the client gives up. Deletes itself, as reactors do.
  class HeldCall final : public grpc::ServerUnaryReactor {
   private:
    void OnCancel() override { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "held")); }
    void OnDone() override { delete this; }
  };

  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(failure_);
    return reactor;
  }

  Mutex mutex_;
  CondVar changed_;
  grpc::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool keep_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::system_clock::duration time_given_ ABSL_GUARDED_BY(mutex_){};
};

// A server on loopback; port 0 chooses a free one.
std::unique_ptr<grpc::Server> Serve(grpc::Service& service, int& port) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

std::shared_ptr<grpc::Channel> Dial(int port) {
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials(),
                                   IdempotencydChannelArguments());
}

v1::ReserveRequest RequestWithKey(const std::string& key) {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key(key);
  return request;
}

// Sends through `method` and waits for the answer.
template <typename Request, typename Response>
absl::StatusOr<Response> Ask(Connection& connection,
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

void ExpectStoreUnavailable(const absl::Status& status) {
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable) << status;
  EXPECT_TRUE(IsIndefinite(status));
  EXPECT_TRUE(DetailsOf(status).retry_delay.has_value());
  EXPECT_THAT(status.message(), HasSubstr("repeat the call with the same tokens"));
}

class UnaryConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = Serve(service_, port_);
    ASSERT_NE(server_, nullptr);
    connection_ = MakeUnaryConnection(Dial(port_));
  }
  void TearDown() override {
    connection_.reset();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + seconds(1));
  }

  FakeService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(UnaryConnectionTest, EveryOperationReachesItsMethod) {
  auto reserved = Ask(*connection_, &Connection::Reserve, RequestWithKey("k"));
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  EXPECT_EQ(reserved->record_id(), "k");
  EXPECT_EQ(reserved->reserved().attempt(), 7u);

  v1::CompleteRequest complete;
  complete.mutable_reply()->set_code(5);
  auto completed = Ask(*connection_, &Connection::Complete, complete);
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->completed_at().seconds(), 5);

  EXPECT_TRUE(Ask(*connection_, &Connection::Release, v1::ReleaseRequest()).ok());

  v1::ExtendRequest extend;
  extend.mutable_lease()->set_seconds(9);
  auto extended = Ask(*connection_, &Connection::Extend, extend);
  ASSERT_TRUE(extended.ok()) << extended.status();
  EXPECT_EQ(extended->lease_remaining().seconds(), 9);
}

TEST_F(UnaryConnectionTest, RepliesOverGrpcsDefaultLimitArrive) {
  auto record = Ask(*connection_, &Connection::Get, v1::GetRequest());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->record().reply().body().size(), std::size_t{5 << 20});
}

TEST_F(UnaryConnectionTest, CatalogueErrorsPassThrough) {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(3);
  const absl::Status error = MakeError(Reason::kQuotaExceeded, "slow down", details);
  service_.FailWith(ToGrpcStatus(error));
  const absl::Status seen = Ask(*connection_, &Connection::Reserve, RequestWithKey("k")).status();
  EXPECT_EQ(seen.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(seen), Reason::kQuotaExceeded);
  EXPECT_EQ(DetailsOf(seen).retry_delay, absl::Seconds(3));
  EXPECT_EQ(seen.message(), "slow down");
}

TEST_F(UnaryConnectionTest, AStatusWithoutAReasonIsStoreUnavailableWithoutItsText) {
  service_.FailWith(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "secret.host:443"));
  const absl::Status seen = Ask(*connection_, &Connection::Reserve, RequestWithKey("k")).status();
  ExpectStoreUnavailable(seen);
  EXPECT_THAT(seen.message(), HasSubstr("status code 7"));
  EXPECT_THAT(seen.message(), Not(HasSubstr("secret.host")));
}

TEST_F(UnaryConnectionTest, AStoppedServerIsToldLongBeforeTheDeadline) {
  server_->Shutdown();
  server_.reset();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status seen =
      Ask(*connection_, &Connection::Reserve, RequestWithKey("k"), In(seconds(60))).status();
  ExpectStoreUnavailable(seen);
  EXPECT_THAT(seen.message(), Not(HasSubstr("127.0.0.1")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST_F(UnaryConnectionTest, ARestartedServerIsFoundAgainQuickly) {
  ASSERT_TRUE(Ask(*connection_, &Connection::Reserve, RequestWithKey("k")).ok());
  server_->Shutdown();
  server_.reset();
  // Long enough down for the pauses between attempts to have grown.
  const auto up_again = In(seconds(3));
  Mutex mutex;
  CondVar never;
  while (std::chrono::steady_clock::now() < up_again) {
    ExpectStoreUnavailable(Ask(*connection_, &Connection::Reserve, RequestWithKey("k")).status());
    MutexLock lock(mutex);
    never.WaitUntil(lock, In(milliseconds(50)));
  }
  server_ = Serve(service_, port_);
  ASSERT_NE(server_, nullptr);
  const auto start = std::chrono::steady_clock::now();
  while (!Ask(*connection_, &Connection::Reserve, RequestWithKey("k")).ok()) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, seconds(10));
    MutexLock lock(mutex);
    never.WaitUntil(lock, In(milliseconds(10)));
  }
  // At most one backoff (1 s and 20 % of jitter) and the machine's own delays.
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
}

TEST_F(UnaryConnectionTest, TheDeadlineTravelsAndEndsTheCall) {
  service_.KeepReserveUnanswered();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status seen =
      Ask(*connection_, &Connection::Reserve, RequestWithKey("k"), In(milliseconds(300))).status();
  const auto took = std::chrono::steady_clock::now() - start;
  ExpectStoreUnavailable(seen);
  EXPECT_THAT(seen.message(), HasSubstr("deadline"));
  EXPECT_GE(took, milliseconds(290));
  EXPECT_LT(took, seconds(5));
  ASSERT_TRUE(service_.WaitUntilHeld(1));
  EXPECT_LE(service_.TimeGiven(), milliseconds(301));
  EXPECT_GT(service_.TimeGiven(), milliseconds(0));
}

TEST_F(UnaryConnectionTest, APassedDeadlineIsAnswered) {
  ExpectStoreUnavailable(
      Ask(*connection_, &Connection::Reserve, RequestWithKey("k"), In(-seconds(1))).status());
}

TEST_F(UnaryConnectionTest, AnInfiniteDeadlineIsOne) {
  EXPECT_TRUE(
      Ask(*connection_, &Connection::Reserve, RequestWithKey("k"), Connection::Deadline::max())
          .ok());
}

TEST_F(UnaryConnectionTest, DestructionAnswersWhatIsOutstanding) {
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

// No call is waited for to arrive: some are cancelled before they left.
TEST_F(UnaryConnectionTest, DestructionRightAfterSendingAnswersEveryCallOnce) {
  for (int round = 0; round < 20; ++round) {
    auto connection = MakeUnaryConnection(Dial(port_));
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

TEST_F(UnaryConnectionTest, WorksOverAnInProcessChannel) {
  auto connection = MakeUnaryConnection(server_->InProcessChannel(IdempotencydChannelArguments()));
  EXPECT_TRUE(Ask(*connection, &Connection::Reserve, RequestWithKey("k")).ok());
}

}  // namespace
}  // namespace idempotency
