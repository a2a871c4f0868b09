// The streams: opened, broken, drained, silent, several at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#include "client/connection/not_connected.h"
#include "client/connection/session_connection.h"
#include "client/testing/fake_service.h"
#include "client/testing/session_connection_fixture.h"
#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AnswerAsUsual;
using testing::Contents;
using ::testing::ElementsAre;
using testing::ExpectStoreUnavailable;
using ::testing::HasSubstr;
using testing::In;
using testing::kBroken;
using testing::Limits;
using testing::RequestWithKey;
using testing::Reserved;
using testing::SessionConnectionTest;
using testing::WithStreams;

TEST_F(SessionConnectionTest, StreamsAreBounded) {
  SessionConnectionOptions options;
  options.streams = SessionConnectionOptions::kMaxStreams + 1;
  Open(options);
  Reserve("1");
  EXPECT_EQ(streams_.count(), static_cast<std::size_t>(SessionConnectionOptions::kMaxStreams));
}

TEST_F(SessionConnectionTest, WhatABrokenStreamLeavesOpenIsSentAgainWithTheSameToken) {
  Open();
  Reserve("1");
  OpenStream();
  Complete();
  Settle();
  stream().End(kBroken);
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  ASSERT_EQ(stream(1).frames().size(), 1u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("complete 2", "reserve 1"));
  const std::string token = stream().frames()[0].operations(0).reserve().request_token();
  EXPECT_TRUE(Uuid::Parse(token).has_value()) << token;
  EXPECT_EQ(stream(1).frames()[0].operations(1).reserve().request_token(), token);
  stream(1).ServerSends(Limits(100, 1 << 20));
  AnswerAll(stream(1));
  for (const Reserved& answer : answers_.Await(2)) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answers_.size(), 2u);
}

// A daemon refuses an operation that was sent before on a stream that broke.
class RefusedRepetitionTest : public SessionConnectionTest {
 protected:
  static v1::SessionResponse Refusal(Reason reason) {
    ErrorDetails details;
    details.retry_delay = absl::Seconds(3);
    const grpc::Status status = ToGrpcStatus(MakeError(reason, "not now", std::move(details)));
    v1::SessionResponse frame = Limits(100, 1 << 20);
    v1::SessionAnswer& answer = *frame.add_answers();
    answer.set_id(1);
    answer.mutable_error()->set_code(status.error_code());
    answer.mutable_error()->set_message(status.error_message());
    answer.mutable_error()->set_details(status.error_details());
    return frame;
  }
  // The answer to the only operation, once it was sent again.
  absl::Status RefuseTheRepetition(Reason reason) {
    Settle();
    stream().End(kBroken);
    Settle();
    return Refuse(stream(1), reason);
  }
  absl::Status Refuse(testing::FakeSessionStream& on, Reason reason) {
    on.ServerSends(Refusal(reason));
    const auto answers = answers_.Await(1);
    return answers.size() == 1 ? answers[0].status() : absl::OkStatus();
  }
};

// One operation for each reason.
class RefusedRepeatedReserve : public RefusedRepetitionTest,
                               public ::testing::WithParamInterface<Reason> {};

INSTANTIATE_TEST_SUITE_P(EachReason, RefusedRepeatedReserve,
                         ::testing::Values(Reason::kOverloaded, Reason::kQuotaExceeded,
                                           Reason::kAccessDenied, Reason::kCredentialsInvalid),
                         [](const auto& tested) { return std::string(ReasonName(tested.param)); });

// The stream that broke may have delivered it, and it may have been granted: a refusal of its
// repetition is no answer to that.
TEST_P(RefusedRepeatedReserve, HasNoAnswer) {
  Open();
  Reserve("1");
  const absl::Status answer = RefuseTheRepetition(GetParam());
  EXPECT_EQ(ReasonOf(answer), Reason::kStoreUnavailable) << answer;
  EXPECT_EQ(KindOfAnswer(answer), AnswerKind::kNone) << answer;
  EXPECT_EQ(DetailsOf(answer).retry_delay, absl::Seconds(3));
  EXPECT_THAT(answer.message(), HasSubstr("not now"));
}

// The daemon refuses the stream on which it would be repeated.
TEST_P(RefusedRepeatedReserve, HasNoAnswerFromAStreamThatIsRefused) {
  Open();
  Reserve("1");
  Settle();
  stream().End(kBroken);
  Settle();
  stream(1).End(ToGrpcStatus(MakeError(GetParam(), "not now")));
  const auto answers = answers_.Await(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kStoreUnavailable) << answers[0].status();
  EXPECT_EQ(KindOfAnswer(answers[0].status()), AnswerKind::kNone) << answers[0].status();
  EXPECT_THAT(answers[0].status().message(), HasSubstr("not now"));
}

// Another daemon, which has no sessions, answers the repetition.
TEST_P(RefusedRepeatedReserve, HasNoAnswerFromAUnaryCallThatIsRefused) {
  unary_refusal_ = MakeError(GetParam(), "not now");
  Open();
  Reserve("1");
  Settle();
  stream().End(kBroken);
  Settle();
  stream(1).End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  const auto answers = answers_.Await(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(unary_calls_, 1);
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kStoreUnavailable) << answers[0].status();
  EXPECT_EQ(KindOfAnswer(answers[0].status()), AnswerKind::kNone) << answers[0].status();
}

// The unary call was never sent; the stream before may have been read.
TEST_F(RefusedRepetitionTest, WithoutAConnectionForTheUnaryCallItMayHaveBeenDone) {
  unary_refusal_ = NotConnected();
  Open();
  Reserve("1");
  Complete();
  Settle();
  stream().End(kBroken);
  Settle();
  stream(1).End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  const auto answers = answers_.Await(2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(unary_calls_, 2);
  for (const Reserved& answer : answers) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable) << answer.status();
    EXPECT_EQ(KindOfAnswer(answer.status()), AnswerKind::kNone) << answer.status();
    EXPECT_FALSE(IsNotConnected(answer.status())) << answer.status();
    EXPECT_TRUE(DetailsOf(answer.status()).retry_delay.has_value());
  }
}

// What ended it may be gRPC or a proxy, after a daemon had read the frame: no status of a stream
// means that nothing was done.
TEST_P(RefusedRepeatedReserve, HasNoAnswerFromTheOnlyStreamThatItWasSentOn) {
  Open();
  Reserve("1");
  stream().End(ToGrpcStatus(MakeError(GetParam(), "not now")));
  const auto answers = answers_.Await(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kStoreUnavailable) << answers[0].status();
  EXPECT_EQ(KindOfAnswer(answers[0].status()), AnswerKind::kNone) << answers[0].status();
}

TEST_F(RefusedRepetitionTest, AFinalRefusalIsTheAnswer) {
  Open();
  Reserve("1");
  EXPECT_EQ(ReasonOf(RefuseTheRepetition(Reason::kReservationLost)), Reason::kReservationLost);
}

TEST_F(RefusedRepetitionTest, ARefusalOfAReservationThatWasSentOnceIsTheAnswer) {
  Open();
  Reserve("1");
  EXPECT_EQ(ReasonOf(Refuse(stream(), Reason::kOverloaded)), Reason::kOverloaded);
}

TEST_F(RefusedRepetitionTest, ARefusalOfACompletionIsTheAnswer) {
  Open();
  Complete();
  EXPECT_EQ(ReasonOf(RefuseTheRepetition(Reason::kOverloaded)), Reason::kOverloaded);
}

TEST_F(SessionConnectionTest, ACallersOwnTokenIsKept) {
  Open();
  v1::ReserveRequest request = RequestWithKey("k");
  request.set_request_token("mine");
  session_->Reserve(request, In(seconds(60)), answers_.Sink());
  EXPECT_EQ(stream().frames()[0].operations(0).reserve().request_token(), "mine");
}

// An answer that was read before the break is not requested again.
TEST_F(SessionConnectionTest, OnlyTheUnansweredIsSentAgain) {
  Open();
  Reserve("1");
  OpenStream();
  Reserve("2");
  AnswerId(stream(), 1);
  stream().End(kBroken);
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 2"));
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(SessionConnectionTest, AnUnreachableDaemonIsReportedAtOnceAndTriedAgainByTheNext) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    EXPECT_EQ(answers_.size(), 0u);
    stream(i).End(kBroken);
    Settle();
  }
  const Reserved answer = OnlyAnswer();
  ExpectStoreUnavailable(answer);
  const std::size_t tried = streams_.count();
  EXPECT_EQ(tried, 3u);
  // Still unreachable: one try each.
  Reserve("2");
  ASSERT_EQ(streams_.count(), tried + 1);
  stream(tried).End(kBroken);
  EXPECT_EQ(answers_.Await(2).size(), 2u);
  Settle();
  EXPECT_EQ(streams_.count(), tried + 1);
  // Reachable again.
  Reserve("3");
  Settle();
  stream(tried + 1).ServerSends(Limits(100, 1 << 20));
  AnswerAll(stream(tried + 1));
  ASSERT_EQ(answers_.Await(3).size(), 3u);
  EXPECT_TRUE(answers_.Await(3)[2].ok());
  EXPECT_EQ(log_.Count("calls to idempotencyd fail"), 1u);
  EXPECT_EQ(log_.Count("answers again"), 1u);
}

// The application's log may block: only the thread that writes waits for it.
TEST_F(SessionConnectionTest, ABlockedLogDelaysNoOtherOperation) {
  absl::Notification logging;
  absl::Notification release;
  session_ = std::make_unique<SessionConnection>(
      streams_.Factory(), testing::FakeUnary(unary_calls_), SessionConnectionOptions(),
      ApplicationLog([&](LogSeverity /*severity*/, std::string_view /*line*/) {
        if (!logging.HasBeenNotified()) logging.Notify();
        release.WaitForNotification();
      }));
  Reserve("1");
  for (std::size_t i = 0; i < 3; ++i) {
    stream(i).End(kBroken);
    if (i < 2) Settle();
  }
  logging.WaitForNotification();
  EXPECT_EQ(answers_.size(), 1u) << "the one that failed";
  Reserve("2", In(std::chrono::milliseconds(50)));
  EXPECT_EQ(answers_.Await(2).size(), 2u);
  release.Notify();
  session_.reset();
}

// Only consecutive streams count.
TEST_F(SessionConnectionTest, AStreamThatOpenedMakesGoodTheOnesThatDidNot) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < 2; ++i) {
    stream(i).End(kBroken);
    Settle();
  }
  OpenStream(2);
  for (std::size_t i = 2; i < 5; ++i) {
    ASSERT_EQ(streams_.count(), i + 1);
    EXPECT_EQ(answers_.size(), 0u);
    stream(i).End(kBroken);
    Settle();
  }
  EXPECT_EQ(answers_.size(), 0u) << "one that opened, and two that did not";
  stream(5).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.size(), 1u);
}

// A daemon that exits ends such streams too, and may be the only one for a while.
TEST_F(SessionConnectionTest, AStreamThatOpenedOnlyToDrainDoesNot) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < 2; ++i) {
    stream(i).End(kBroken);
    Settle();
  }
  v1::SessionResponse draining = Limits(100, 1 << 20);
  draining.set_draining(true);
  stream(2).ServerSends(draining);
  Settle();
  stream(2).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.size(), 0u);
  ASSERT_EQ(streams_.count(), 4u);
  stream(3).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.size(), 1u);
  EXPECT_EQ(streams_.count(), 4u);
}

TEST_F(SessionConnectionTest, WhatHadNoConnectionOnAnyStreamWasNeverSent) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    stream(i).HadNoConnection();
    stream(i).End(kBroken);
    Settle();
  }
  const Reserved answer = OnlyAnswer();
  ExpectStoreUnavailable(answer);
  EXPECT_TRUE(IsNotConnected(answer.status())) << answer.status();
}

TEST_F(SessionConnectionTest, WhatOneStreamHadAConnectionForMayHaveBeenSent) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    if (i > 0) stream(i).HadNoConnection();
    stream(i).End(kBroken);
    Settle();
  }
  const Reserved answer = OnlyAnswer();
  ExpectStoreUnavailable(answer);
  EXPECT_FALSE(IsNotConnected(answer.status()));
}

TEST_F(SessionConnectionTest, ARefusalIsNotRetried) {
  Open();
  Reserve("1");
  stream().End(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "secret.host"));
  const Reserved answer = OnlyAnswer();
  ExpectStoreUnavailable(answer);
  EXPECT_THAT(answer.status().message(), HasSubstr("status code 7"));
  Settle();
  EXPECT_EQ(streams_.count(), 1u);
}

// The end of the stream, which comes after the failed write, shows whether another stream has a
// chance.
TEST_F(SessionConnectionTest, ARefusalIsForThoseWhoWaitForTheStreamToo) {
  Open();
  Reserve("sent");
  Settle();
  stream().HoldWrites();
  Reserve("being sent");
  Reserve("waits");
  stream().End(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no"));
  Settle();
  EXPECT_EQ(answers_.size(), 3u);
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, AnOperationThatBreaksEveryStreamIsAbandoned) {
  Open();
  Reserve("poison");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    OpenStream(i);
    stream(i).End(kBroken);
    Settle();
  }
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  ExpectStoreUnavailable(answers_.Await(1)[0]);
  EXPECT_EQ(streams_.count(), 8u);
}

// The daemon answers STORE_UNAVAILABLE: it alone may have lost its store.
class WithoutVerdictTest : public SessionConnectionTest {
 protected:
  // Operations are reserved, and refused by the stream that they were sent on.
  void ReserveAndRefuse(std::size_t on, int times,
                        const absl::Status& refusal = MakeError(Reason::kStoreUnavailable, "")) {
    for (int i = 0; i < times; ++i) {
      Reserve("key");
      ++reserved_;
      if (streams_.count() <= on) return ADD_FAILURE() << "there is no stream " << on;
      const grpc::Status status = ToGrpcStatus(refusal);
      v1::SessionResponse frame = Limits(100, 1 << 20);
      frame.add_answers()->set_id(reserved_);
      frame.mutable_answers(0)->mutable_error()->set_code(status.error_code());
      frame.mutable_answers(0)->mutable_error()->set_details(status.error_details());
      stream(on).ServerSends(frame);
      // A read that was deferred begins on a thread for which Settle() does not wait.
      ASSERT_EQ(answers_.Await(reserved_ - unanswered_).size() + unanswered_, reserved_);
      Settle();
    }
  }
  void RefuseUntil(const std::function<bool()>& done, std::size_t on) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done() && !HasFailure() && std::chrono::steady_clock::now() < deadline) {
      ReserveAndRefuse(on, 1);
    }
  }
  void ReserveAndAnswer(std::size_t on) {
    Reserve("key");
    AnswerId(stream(on), ++reserved_);
  }

  std::size_t reserved_ = 0;
  std::size_t unanswered_ = 0;
};

TEST_F(WithoutVerdictTest, TheDaemonIsLeftForTheNextOne) {
  Open();
  ReserveAndRefuse(/*on=*/0, 3);
  EXPECT_TRUE(stream(0).half_closed());
  ReserveAndRefuse(/*on=*/1, 1);
}

TEST_F(WithoutVerdictTest, UnansweredOperationsAreNotTakenAway) {
  Open();
  Reserve("waits");
  ++reserved_;
  OpenStream();
  for (std::size_t answered = 0; answered < 3; ++answered) {
    Complete();
    v1::SessionResponse frame;
    frame.add_answers()->set_id(++reserved_);
    frame.mutable_answers(0)->mutable_error()->set_code(grpc::StatusCode::UNAVAILABLE);
    stream().ServerSends(frame);
    Settle();
  }
  EXPECT_FALSE(stream().half_closed());
  AnswerId(stream(), 1);
  EXPECT_TRUE(answers_.Await(4)[3].ok());
  EXPECT_TRUE(stream().half_closed());
}

// A locked row, for example, is not the daemon's fault.
TEST_F(WithoutVerdictTest, SomeOfItsAnswersAreNoReasonToLeave) {
  Open();
  for (int i = 0; i < 3; ++i) {
    ReserveAndRefuse(/*on=*/0, 2);
    ReserveAndAnswer(/*on=*/0);
  }
  EXPECT_EQ(streams_.count(), 1u);
  EXPECT_FALSE(stream().half_closed());
}

TEST_F(WithoutVerdictTest, RefusalsForAnotherReasonAreNoneToLeave) {
  Open();
  for (const Reason reason : {Reason::kOverloaded, Reason::kQuotaExceeded, Reason::kRequestInvalid,
                              Reason::kAccessDenied, Reason::kRecordDamaged}) {
    ReserveAndRefuse(/*on=*/0, 4, MakeError(reason, ""));
  }
  ReserveAndRefuse(/*on=*/0, 4, absl::DeadlineExceededError("callers choose their deadlines"));
  EXPECT_EQ(streams_.count(), 1u);
  EXPECT_FALSE(stream().half_closed());
}

// The queue is full while the store does not answer.
TEST_F(WithoutVerdictTest, RefusalsForAnotherReasonAreNoVerdictsEither) {
  Open();
  for (int i = 0; i < 3; ++i) {
    ReserveAndRefuse(/*on=*/0, 1, MakeError(Reason::kOverloaded, ""));
    ReserveAndRefuse(/*on=*/0, 1);
  }
  EXPECT_TRUE(stream().half_closed());
}

// All have lost their store: the streams of all clients would only load the daemons.
TEST_F(WithoutVerdictTest, TheNextDaemonIsNotLeftAtOnce) {
  Open();
  ReserveAndRefuse(/*on=*/0, 3);
  ReserveAndRefuse(/*on=*/1, 10);
  EXPECT_EQ(streams_.count(), 2u);
  // A quarter to half a second, and then half of a second to a whole one.
  const auto began = std::chrono::steady_clock::now();
  RefuseUntil([&] { return stream(1).half_closed(); }, /*on=*/1);
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(5000));
  ReserveAndRefuse(/*on=*/2, 3);
  EXPECT_EQ(streams_.count(), 3u);
}

// Callers that wait keep their streams.
TEST_F(WithoutVerdictTest, FewStreamsThatWereLeftAreOpenAtOnce) {
  Open();
  Reserve("waits");
  OpenStream();
  v1::SessionResponse refusals;
  for (std::uint64_t id = 2; id <= 4; ++id) {
    Complete();
    refusals.add_answers()->set_id(id);
    refusals.mutable_answers()->rbegin()->mutable_error()->set_code(grpc::StatusCode::UNAVAILABLE);
  }
  stream().ServerSends(refusals);
  Settle();
  reserved_ = 4;
  const auto began = std::chrono::steady_clock::now();
  unanswered_ = 1;
  RefuseUntil([&] { return std::chrono::steady_clock::now() - began > milliseconds(600); },
              /*on=*/1);
  EXPECT_FALSE(stream(1).half_closed());
  AnswerId(stream(), 1);
  unanswered_ = 0;
  stream().End(grpc::Status::OK);
  Settle();
  ReserveAndRefuse(/*on=*/1, 1);
  EXPECT_TRUE(stream(1).half_closed());
}

TEST_F(SessionConnectionTest, ADrainingServerIsLeftWithoutLosingAnything) {
  Open();
  Reserve("1");
  stream().ServerSends(Limits(100, 1 << 20));
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().ServerSends(draining);
  Settle();
  EXPECT_FALSE(stream().half_closed());
  Reserve("2");
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_EQ(stream().frames().size(), 1u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 2"));
  AnswerId(stream(), 1);
  EXPECT_TRUE(stream().half_closed());
  EXPECT_TRUE(answers_.Await(1)[0].ok());
  stream().End(grpc::Status::OK);
  Settle();
  stream(1).ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(1), 2);
  EXPECT_TRUE(answers_.Await(2)[1].ok());
  EXPECT_EQ(streams_.count(), 2u);
}

TEST_F(SessionConnectionTest, AnIdleDrainingStreamIsHalfClosedOnceItIsRead) {
  Open();
  Reserve("1");
  stream().ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  ASSERT_TRUE(stream().AwaitRead());
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().ServerSends(draining);
  Settle();
  EXPECT_TRUE(stream().half_closed());
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, AHalfClosedStreamThatTheServerDoesNotEndIsCancelled) {
  SessionConnectionOptions options;
  options.silence_allowed = absl::Milliseconds(50);
  Open(options);
  Reserve("1");
  stream().ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  ASSERT_TRUE(stream().AwaitRead());
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().ServerSends(draining);
  Settle();
  ASSERT_TRUE(stream().half_closed());
  EXPECT_FALSE(stream().cancelled());
  const auto deadline = In(seconds(10));
  while (!stream().cancelled() && std::chrono::steady_clock::now() < deadline) Settle();
  EXPECT_TRUE(stream().cancelled());
}

TEST_F(SessionConnectionTest, ADrainingStreamIsHalfClosedOnceAbandonedOperationsAreAnswered) {
  Open();
  Reserve("1");
  stream().ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  Reserve("given up", In(milliseconds(30)));
  ASSERT_EQ(answers_.Await(2).size(), 2u);
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().ServerSends(draining);
  Settle();
  EXPECT_FALSE(stream().half_closed());
  AnswerId(stream(), 2);
  EXPECT_TRUE(stream().half_closed());
  EXPECT_FALSE(stream().cancelled());
}

TEST_F(SessionConnectionTest, ASilentServerWithUnansweredOperationsIsAbandoned) {
  SessionConnectionOptions options;
  options.silence_allowed = absl::Milliseconds(50);
  Open(options);
  Reserve("1");
  stream().ServerSends(Limits(1, 1 << 20));
  Settle();
  AnswerId(stream(), 1);
  Reserve("2", In(milliseconds(20)));
  Reserve("3", In(seconds(60)));
  ASSERT_EQ(answers_.Await(2).size(), 2u);
  const auto deadline = In(seconds(10));
  const auto sent_again = [&] { return streams_.count() > 1 && !stream(1).frames().empty(); };
  const auto abandoned = [&] { return sent_again() && stream().cancelled(); };
  while (!abandoned() && std::chrono::steady_clock::now() < deadline) Settle();
  ASSERT_TRUE(sent_again());
  EXPECT_TRUE(stream().cancelled());
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 3"));
}

// The stream's end arrives on a thread of gRPC's, which may be busy with a callback.
TEST_F(SessionConnectionTest, AnAbandonedStreamTakesNoOperationBeforeItsEnd) {
  SessionConnectionOptions options;
  options.silence_allowed = absl::Milliseconds(50);
  Open(options);
  std::promise<void> called;
  std::promise<void> go_on;
  session_->Reserve(RequestWithKey("1"), In(seconds(60)), [&](const Reserved&) {
    called.set_value();
    go_on.get_future().wait();
  });
  v1::SessionResponse frame = Limits(100, 1 << 20);
  v1::SessionOperation first;
  first.set_id(1);
  first.mutable_reserve();
  AnswerAsUsual(first, frame);
  stream().ServerSends(frame);
  called.get_future().wait();
  Reserve("2", In(milliseconds(20)));
  const auto deadline = In(seconds(10));
  while (!stream().cancelled() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(stream().cancelled());
  Reserve("3");
  const std::size_t streams = streams_.count();
  go_on.set_value();
  Settle();
  ASSERT_EQ(streams, 2u) << "the operation waits for the end of the stream";
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 3"));
}

TEST_F(SessionConnectionTest, OfTwoStreamsTheSilentOneIsAbandoned) {
  SessionConnectionOptions options = WithStreams(2);
  options.silence_allowed = absl::Milliseconds(50);
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  OpenStream(0);
  OpenStream(1);
  // By the stream that has fewer unanswered operations.
  Reserve("2", In(milliseconds(20)));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  const auto deadline = In(seconds(10));
  while (!stream(1).cancelled() && std::chrono::steady_clock::now() < deadline) Settle();
  EXPECT_TRUE(stream(1).cancelled());
  EXPECT_FALSE(stream(0).cancelled());
}

TEST_F(SessionConnectionTest, AServerThatSendsOtherAnswersIsAlive) {
  SessionConnectionOptions options;
  options.silence_allowed = absl::Milliseconds(1000);
  Open(options);
  Reserve("owed", In(milliseconds(20)));
  Reserve("2");
  stream().ServerSends(Limits(100, 1 << 20));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  AnswerId(stream(), 2);
  // Ends after the deadline of the first one would have passed.
  Reserve("3", In(milliseconds(1300)));
  ASSERT_EQ(answers_.Await(3).size(), 3u);
  EXPECT_FALSE(stream().cancelled());
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, OperationsGoToTheStreamWithTheFewestUnanswered) {
  Open(WithStreams(2));
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  for (std::size_t i = 0; i < 2; ++i) OpenStream(i);
  for (const char* key : {"2", "3", "4", "5", "6"}) {
    Reserve(key);
    Settle();
  }
  EXPECT_EQ(stream(0).frames().size(), 3u);
  EXPECT_EQ(stream(1).frames().size(), 3u);
  // One breaks: the other carries its operations.
  stream(0).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.size(), 0u);
}

TEST_F(SessionConnectionTest, OnceAStreamHasOpenedNoOtherIsTriedBesideIt) {
  SessionConnectionOptions options = WithStreams(2);
  options.retry_session_after = absl::Milliseconds(1000);
  Open(options);
  Reserve("1");
  stream(0).End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  OpenStream(1);
  // Abandoned after the time at which sessions would have been tried again.
  Reserve("2", In(milliseconds(1300)));
  ASSERT_EQ(answers_.Await(2).size(), 2u);
  EXPECT_EQ(stream(1).frames().size(), 2u) << "the reservation, and that it was given up";
  EXPECT_EQ(streams_.count(), 2u);
}

// A proxy may accept the stream and hold it.
TEST_F(SessionConnectionTest, ARetriedStreamThatIsNeverAnsweredIsCancelledAndTriedAgain) {
  SessionConnectionOptions options;
  options.retry_session_after = absl::Milliseconds(30);
  options.silence_allowed = absl::Milliseconds(50);
  Open(options);
  Reserve("1");
  stream(0).End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  ASSERT_EQ(answers_.Await(1).size(), 1u);
  const auto deadline = In(seconds(10));
  while (streams_.count() < 3 && std::chrono::steady_clock::now() < deadline) Settle();
  ASSERT_GE(streams_.count(), 3u);
  EXPECT_TRUE(stream(1).cancelled());
  EXPECT_TRUE(stream(1).frames().empty());
}

TEST_F(SessionConnectionTest, ABrokenStreamIsReplacedWhileAnotherOneIsStillOpening) {
  Open(WithStreams(2));
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  OpenStream(0);
  stream(0).End(kBroken);
  Settle();
  EXPECT_EQ(streams_.count(), 3u);
}

TEST_F(SessionConnectionTest, ThereIsAlwaysOneStream) {
  Open(WithStreams(0));
  Reserve("1");
  ASSERT_EQ(streams_.count(), 1u);
  EXPECT_EQ(stream().frames().size(), 1u);
}

// For example to a port without a listener: each try may take its time.
TEST_F(SessionConnectionTest,
       AStreamThatDoesNotOpenBesideOneThatWorksIsNotTriedWithEveryOperation) {
  Open(WithStreams(2));
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  OpenStream(0);
  stream(1).End(kBroken);
  Settle();
  for (int i = 0; i < 10; ++i) {
    Reserve("k");
    Settle();
  }
  EXPECT_EQ(streams_.count(), 2u);
  EXPECT_EQ(stream(0).frames().size(), 11u);
  EXPECT_EQ(answers_.size(), 0u);
}

}  // namespace
}  // namespace idempotency::internal
