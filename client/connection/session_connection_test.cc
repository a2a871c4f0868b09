#include "client/connection/session_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "client/testing/fake_service.h"
#include "client/testing/fake_session_streams.h"
#include "client/testing/session_connection_fixture.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "tests/support/blocking_call.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AnswerAsUsual;
using testing::BlockingCall;
using testing::Contents;
using ::testing::ElementsAre;
using testing::ExpectStoreUnavailable;
using testing::FakeSessionStream;
using testing::FakeSessionStreams;
using testing::FakeUnary;
using ::testing::HasSubstr;
using testing::In;
using testing::kBroken;
using testing::Limits;
using testing::RequestWithKey;
using testing::Reserved;
using testing::SessionConnectionTest;
using testing::StatusSink;
using testing::WithStreams;

TEST_F(SessionConnectionTest, ALoneOperationIsWrittenBeforeTheCallReturns) {
  Open();
  EXPECT_EQ(streams_.count(), 0u);
  Reserve("k");
  ASSERT_EQ(streams_.count(), 1u);
  ASSERT_EQ(stream().frames().size(), 1u);
  EXPECT_THAT(Contents(stream().frames()[0]), ElementsAre("reserve 1"));
  EXPECT_EQ(stream().frames()[0].operations(0).reserve().record_key().key(), "k");
}

TEST_F(SessionConnectionTest, AnswersComeInAnyOrder) {
  Open();
  Reserve("a");
  Reserve("b");
  OpenStream();
  AnswerId(stream(), 2);
  AnswerId(stream(), 1);
  const auto answers = answers_.Await(2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]->record_id(), "id 2");
  EXPECT_EQ(answers[1]->record_id(), "id 1");
}

TEST_F(SessionConnectionTest, AnswersOfAServerThatBrokeARuleDoNotCount) {
  Open();
  Reserve("1");
  v1::SessionResponse wrong = Limits(100, 1 << 20);
  wrong.add_answers()->set_id(77);
  v1::SessionResponse right;
  AnswerAsUsual(stream().frames()[0].operations(0), right);
  stream().ServerSends(wrong);
  stream().ServerSends(right);
  Settle();
  EXPECT_EQ(answers_.size(), 0u);
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 1"));
}

TEST_F(SessionConnectionTest, NothingMoreIsWrittenToAServerThatBrokeARule) {
  Open();
  Reserve("1");
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  Reserve("waits for room");
  v1::SessionResponse frame;
  AnswerAsUsual(stream().frames()[0].operations(0), frame);
  frame.add_answers()->set_id(77);
  stream().ServerSends(frame);
  Settle();
  EXPECT_EQ(stream().frames().size(), 1u);
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 2"));
}

TEST_F(SessionConnectionTest, AnErrorArrivesWithItsReasonAndItsMessage) {
  Open();
  Reserve("1");
  const grpc::Status reused = ToGrpcStatus(MakeError(Reason::kKeyReused, "another request"));
  v1::SessionResponse frame = Limits(100, 1 << 20);
  v1::SessionAnswer& answer = *frame.add_answers();
  answer.set_id(1);
  answer.mutable_error()->set_code(reused.error_code());
  answer.mutable_error()->set_message(reused.error_message());
  answer.mutable_error()->set_details(reused.error_details());
  stream().ServerSends(frame);
  const auto answers = answers_.Await(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kKeyReused);
  EXPECT_EQ(answers[0].status().message(), "another request");
}

class RogueServer : public SessionConnectionTest, public ::testing::WithParamInterface<int> {};

// Each breaks a rule of the protocol. The client ends the stream and sends the outstanding
// operations again on another one.
TEST_P(RogueServer, LosesItsStream) {
  Open();
  Reserve("1");
  Reserve("2");
  v1::SessionOperation second;
  second.set_id(2);
  second.mutable_reserve();
  v1::SessionResponse frame;
  std::size_t answered = 0;
  switch (GetParam()) {
    case 0:  // No limits.
      frame.set_draining(true);
      break;
    case 1:  // Limits that admit no operation.
      frame = Limits(0, 0);
      break;
    case 2:  // An id that was never used.
      frame = Limits(100, 1 << 20);
      frame.add_answers()->set_id(77);
      break;
    case 3:  // The same id twice.
      frame = Limits(100, 1 << 20);
      AnswerAsUsual(second, frame);
      AnswerAsUsual(second, frame);
      answered = 1;
      break;
    case 4: {  // With another kind of response.
      frame = Limits(100, 1 << 20);
      v1::SessionAnswer& answer = *frame.add_answers();
      answer.set_id(2);
      answer.mutable_complete();
      break;
    }
    case 5:  // With no response.
      frame = Limits(100, 1 << 20);
      frame.add_answers()->set_id(2);
      break;
  }
  stream().ServerSends(frame);
  Settle();
  EXPECT_TRUE(stream().cancelled());
  ASSERT_EQ(streams_.count(), 2u);
  stream(1).ServerSends(Limits(100, 1 << 20));
  AnswerAll(stream(1));
  const auto answers = answers_.Await(2);
  EXPECT_EQ(answers.size(), 2u);
  for (const Reserved& answer : answers) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Contents(stream(1).frames()[0]).size(), 2u - answered);
  // Once, over any number of streams.
  v1::SessionResponse never_sent;
  never_sent.add_answers()->set_id(77);
  ASSERT_TRUE(stream(1).AwaitRead());
  stream(1).ServerSends(never_sent);
  Settle();
  EXPECT_TRUE(stream(1).cancelled());
  EXPECT_EQ(log_.Count("violated the session protocol"), 1u);
}
INSTANTIATE_TEST_SUITE_P(Rules, RogueServer, ::testing::Range(0, 6));

TEST_F(SessionConnectionTest, AServerWithoutSessionsGetsUnaryCallsAndNoCallerGetsAnError) {
  Open();
  Reserve("1");
  Complete();
  stream().End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  auto answers = answers_.Await(2);
  ASSERT_EQ(answers.size(), 2u);
  for (const Reserved& answer : answers) EXPECT_TRUE(answer.ok()) << answer.status();
  Reserve("2");
  answers = answers_.Await(3);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[2]->record_id(), "unary 2");
  EXPECT_EQ(unary_calls_, 3);
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, OperationsOfEveryKindTakeTheUnaryWay) {
  Open();
  Reserve("1");
  stream().End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  Reserve("2");
  Complete();
  session_->Release(v1::ReleaseRequest(), In(seconds(60)),
                    StatusSink<v1::ReleaseResponse>(answers_));
  session_->Extend(v1::ExtendRequest(), In(seconds(60)), StatusSink<v1::ExtendResponse>(answers_));
  session_->Get(v1::GetRequest(), In(seconds(60)), StatusSink<v1::GetResponse>(answers_));
  const auto answers = answers_.Await(6);
  ASSERT_EQ(answers.size(), 6u);
  for (const Reserved& answer : answers) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(unary_calls_, 6);
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, AnExceptionOfACallbackDelaysNoOtherAnswerOfItsFrame) {
  Open();
  session_->Reserve(RequestWithKey("1"), In(seconds(60)),
                    [](const Reserved& /*answer*/) { throw std::runtime_error("no place"); });
  Reserve("2");
  Settle();
  v1::SessionResponse frame = Limits(100, 1 << 20);
  for (const auto& request : stream().frames()) {
    for (const auto& operation : request.operations()) AnswerAsUsual(operation, frame);
  }
  ASSERT_EQ(frame.answers_size(), 2);
  stream().ServerSends(frame);
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  EXPECT_EQ(log_.Count("the callback of an operation threw: no place"), 1u);
  // A later operation is sent at once.
  Settle();
  const std::size_t frames = stream().frames().size();
  Reserve("3");
  EXPECT_EQ(stream().frames().size(), frames + 1);
}

TEST_F(SessionConnectionTest, SessionsAreTriedAgainAndTaken) {
  SessionConnectionOptions options;
  options.retry_session_after = absl::Milliseconds(30);
  Open(options);
  Reserve("1");
  const grpc::Status unimplemented(grpc::StatusCode::UNIMPLEMENTED, "unknown method");
  stream().End(unimplemented);
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  const auto await_stream = [&](std::size_t count) {
    const auto deadline = In(seconds(10));
    while (streams_.count() < count && std::chrono::steady_clock::now() < deadline) Settle();
    ASSERT_GE(streams_.count(), count);
  };
  await_stream(2);
  stream(1).End(unimplemented);
  await_stream(3);
  EXPECT_EQ(unary_calls_, 1);
  EXPECT_EQ(log_.Count("idempotencyd does not support sessions"), 1u);
  EXPECT_EQ(log_.count(), 1u);
  // No operation is sent on it before it has proved to work.
  Reserve("2");
  EXPECT_EQ(unary_calls_, 2);
  OpenStream(2);
  Reserve("3");
  Settle();
  EXPECT_EQ(unary_calls_, 2);
  EXPECT_EQ(stream(2).frames().size(), 1u);
  EXPECT_EQ(log_.Count("idempotencyd supports sessions now"), 1u);
  EXPECT_EQ(log_.count(), 2u);
}

// Daemons of two versions behind one address.
TEST_F(SessionConnectionTest, AServerWithoutSessionsBesideOneThatHasThemIsNotUsed) {
  Open(WithStreams(2));
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  OpenStream(0);
  stream(1).End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  Settle();
  Reserve("2");
  Settle();
  EXPECT_EQ(streams_.count(), 2u);
  EXPECT_EQ(stream(0).frames().size(), 2u);
  EXPECT_EQ(unary_calls_, 0);
  EXPECT_EQ(log_.count(), 0u);
}

TEST_F(SessionConnectionTest, DestructionAnswersEveryOperationAlsoNewOnes) {
  Open();
  Answers<testing::Reserved> late;
  SessionConnection* const session = session_.get();
  for (int i = 0; i < 5; ++i) {
    session->Reserve(RequestWithKey("k"), In(seconds(60)), [&, session](Reserved answer) {
      answers_.Sink()(std::move(answer));
      session->Reserve(RequestWithKey("again"), In(seconds(60)), late.Sink());
    });
  }
  stream().ServerSends(Limits(2, 1 << 20));
  Settle();
  session_.reset();
  EXPECT_EQ(answers_.size(), 5u);
  EXPECT_EQ(late.size(), 5u);
  for (const Reserved& answer : answers_.Await(5)) ExpectStoreUnavailable(answer);
  for (const Reserved& answer : late.Await(5)) ExpectStoreUnavailable(answer);
  EXPECT_THAT(late.Await(5)[0].status().message(), HasSubstr("was cancelled"));
  EXPECT_EQ(log_.count(), 0u) << "the daemon is not reported";
}

TEST_F(SessionConnectionTest, DestructionOpensNoStreamForWhatStillWaits) {
  Open();
  OccupyWriter();
  Reserve("waits");
  session_.reset();
  EXPECT_EQ(streams_.count(), 1u);
  EXPECT_EQ(answers_.size(), 3u);
}

TEST_F(SessionConnectionTest, AnAnswerThatComesDuringDestructionIsTooLate) {
  Open();
  std::promise<void> called;
  std::promise<void> go_on;
  session_->Reserve(RequestWithKey("1"), In(seconds(60)), [&](const Reserved&) {
    called.set_value();
    go_on.get_future().wait();
  });
  Reserve("2");
  OpenStream();
  for (const std::uint64_t id : {1, 2}) {
    v1::SessionOperation operation;
    operation.set_id(id);
    operation.mutable_reserve();
    v1::SessionResponse answer;
    AnswerAsUsual(operation, answer);
    stream().ServerSends(answer);
  }
  called.get_future().wait();
  auto destroyed = std::async(std::launch::async, [&] { session_.reset(); });
  ExpectStoreUnavailable(answers_.Await(1)[0]);
  go_on.set_value();
  destroyed.get();
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(SessionConnectionTest, DestructionWaitsForTheCallbacksOfAStreamThatEnded) {
  Open();
  std::promise<void> called;
  std::promise<void> go_on;
  std::atomic<bool> returns{false};
  session_->Reserve(RequestWithKey("k"), In(seconds(60)), [&](const Reserved&) {
    called.set_value();
    go_on.get_future().wait();
    returns = true;
  });
  stream().End(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no"));
  called.get_future().wait();
  BlockingCall<bool> destruction([&] {
    session_.reset();
    return returns.load();
  });
  EXPECT_TRUE(destruction.AwaitBlocked());
  go_on.set_value();
  EXPECT_TRUE(destruction.Get());
}

// Several callers, answers on several threads, streams that break, drain and end before their first
// frame: every operation is answered once, and with its own answer.
TEST(SessionStressTest, EveryOperationIsAnsweredOnce) {
  constexpr int kCallers = 4;
  constexpr int kOperations = 2500;
  FakeSessionStreams streams(/*network_threads=*/3);
  std::atomic<int> unary_calls{0};
  std::atomic<int> count{0};
  streams.SetPeer([&](FakeSessionStream& stream, const v1::SessionRequest& request) {
    const int number = ++count;
    v1::SessionResponse response;
    if (request.operations(0).id() > 0 && number % 97 == 0) return stream.End(kBroken);
    for (const auto& operation : request.operations()) {
      if (!operation.has_cancel()) AnswerAsUsual(operation, response);
    }
    if (number % 61 == 0) response.set_draining(true);
    stream.ServerSends(response);
    if (number % 61 == 0) stream.End(grpc::Status::OK);
  });
  const SessionConnectionOptions options = WithStreams(2);
  streams.SetFirstFrame(Limits(16, 4096));
  auto session =
      std::make_unique<SessionConnection>(streams.Factory(), FakeUnary(unary_calls), options);
  std::atomic<int> answered{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < kOperations; ++i) {
        const std::string key = absl::StrCat(c, "-", i);
        if (i % 3 == 0) {
          session->Complete(v1::CompleteRequest(), In(seconds(60)),
                            [&](const auto& answer) { ++(answer.ok() ? answered : wrong); });
        } else {
          session->Reserve(RequestWithKey(key), In(seconds(60)), [&, key](const Reserved& answer) {
            ++(answer.ok() && answer->record_id() == key ? answered : wrong);
          });
        }
        if (i % 50 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  const auto deadline = In(seconds(30));
  while (answered + wrong < kCallers * kOperations && std::chrono::steady_clock::now() < deadline) {
    streams.network().Settle();
  }
  session.reset();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(answered, kCallers * kOperations);
  EXPECT_GT(streams.count(), 5u);
}

}  // namespace
}  // namespace idempotency::internal
