// The content of the frames, and the operations that a server or gRPC refuses to read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"

#include "client/connection/session_connection.h"
#include "client/testing/fake_service.h"
#include "client/testing/fake_session_streams.h"
#include "client/testing/session_connection_fixture.h"
#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::AnswerAsUsual;
using testing::Contents;
using ::testing::ElementsAre;
using testing::FakeSessionStream;
using ::testing::HasSubstr;
using testing::In;
using testing::Limits;
using testing::RequestWithKey;
using testing::Reserved;
using testing::SessionConnectionTest;
using testing::StatusSink;

TEST_F(SessionConnectionTest, WhatGathersLeavesTogetherAndWhatEndsWorkLeavesFirst) {
  Open();
  OccupyWriter();
  Reserve("third");
  session_->Get(v1::GetRequest(), In(seconds(60)), StatusSink<v1::GetResponse>(answers_));
  Complete();
  session_->Extend(v1::ExtendRequest(), In(seconds(60)), StatusSink<v1::ExtendResponse>(answers_));
  session_->Release(v1::ReleaseRequest(), In(seconds(60)),
                    StatusSink<v1::ReleaseResponse>(answers_));
  EXPECT_EQ(stream().frames().size(), 2u);
  stream().ReleaseWrites();
  Settle();
  ASSERT_EQ(stream().frames().size(), 3u);
  EXPECT_THAT(Contents(stream().frames()[2]),
              ElementsAre("complete 5", "extend 6", "release 7", "reserve 3", "get 4"));
  AnswerAll(stream());
  for (const Reserved& answer : answers_.Await(7)) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answers_.size(), 7u);
}

TEST_F(SessionConnectionTest, FramesKeepToTheServersLimit) {
  Open();
  Reserve("first");
  stream().ServerSends(Limits(100, 1000));
  Settle();
  stream().HoldWrites();
  for (int i = 0; i < 10; ++i) Reserve(std::string(250, 'k'));
  stream().ReleaseWrites();
  Settle();
  std::size_t operations = 0;
  for (const auto& frame : stream().frames()) {
    EXPECT_LE(frame.ByteSizeLong(), 1000u);
    operations += frame.operations_size();
  }
  EXPECT_EQ(operations, 11u);
  EXPECT_LE(stream().frames().size(), 8u);
}

// The first operations do not wait for the server's limits, and keep within the limits that every
// server accepts.
TEST_F(SessionConnectionTest, UntilTheServersLimitsArriveFramesAreSmallAndFewReservationsAreSent) {
  Open();
  Reserve("first");
  Settle();
  stream().HoldWrites();
  Reserve("second");
  v1::CompleteRequest complete;
  complete.set_reservation_token(std::string(64, 't'));
  for (int i = 0; i < 2000; ++i) {
    session_->Complete(complete, In(seconds(60)), StatusSink<v1::CompleteResponse>(answers_));
  }
  for (int i = 0; i < 100; ++i) Reserve(absl::StrCat(i));
  stream().ReleaseWrites();
  Settle();
  int reservations = 0;
  int completions = 0;
  for (const auto& frame : stream().frames()) {
    EXPECT_LE(frame.ByteSizeLong(), 64u * 1024);
    EXPECT_LE(frame.operations_size(), 1024);
    for (const auto& operation : frame.operations()) {
      reservations += operation.has_reserve() ? 1 : 0;
      completions += operation.has_complete() ? 1 : 0;
    }
  }
  EXPECT_EQ(reservations, 64);
  EXPECT_EQ(completions, 2000);
  EXPECT_LE(stream().frames().size(), 6u) << "small, and no smaller";
}

// With every limit of a server: the operations behind a frame wait until it has been written.
TEST_F(SessionConnectionTest, FramesStayFarBelowWhatAServerOfLargeMessagesTakes) {
  constexpr std::size_t kOperationBytes = 100 * 1024;
  Open();
  Reserve("first");
  stream().ServerSends(Limits(1000, 16 << 20));
  Settle();
  stream().HoldWrites();
  for (int i = 0; i < 20; ++i) Reserve(std::string(kOperationBytes, 'k'));
  stream().ReleaseWrites();
  Settle();
  std::size_t operations = 0;
  for (const auto& frame : stream().frames()) {
    EXPECT_LE(frame.ByteSizeLong(), 5 * kOperationBytes);
    operations += frame.operations_size();
  }
  EXPECT_EQ(operations, 21u);
  EXPECT_LT(stream().frames().size(), operations) << "and several share one";
}

TEST_F(SessionConnectionTest, AnOperationOverAFrameHasOneOfItsOwn) {
  Open();
  Reserve("first");
  stream().ServerSends(Limits(100, 1000));
  Settle();
  stream().HoldWrites();
  for (const char* key : {"a", "b"}) Reserve(key);
  Reserve(std::string(2000, 'k'));
  Reserve("c");
  stream().ReleaseWrites();
  Settle();
  const auto frames = stream().frames();
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(frames[3].operations_size(), 1);
}

TEST_F(SessionConnectionTest, AnOperationOverAnyMessageIsRefused) {
  Open();
  Reserve(std::string(limits::kMaxMessageBytes, 'k'));
  const Reserved answer = OnlyAnswer();
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
  EXPECT_THAT(answer.status().message(),
              AllOf(HasSubstr("session.operation: "),
                    HasSubstr(absl::StrCat(" ", limits::kMaxMessageBytes, " bytes"))));
}

// The server answers the operations before a frame that it cannot read, and ends the stream: the
// other operations of that frame are served all the same.
TEST_F(SessionConnectionTest, OnlyTheOperationThatMakesItsFrameUnreadableIsRefused) {
  const absl::Status invalid = InvalidField("frame", "is not a SessionRequest");
  streams_.SetPeer([&](FakeSessionStream& link, const v1::SessionRequest& request) {
    v1::SessionResponse response;
    for (const auto& operation : request.operations()) {
      if (operation.reserve().record_key().key() == "bad") return link.End(ToGrpcStatus(invalid));
      AnswerAsUsual(operation, response);
    }
    link.ServerSends(response);
  });
  streams_.SetFirstFrame(Limits(100, 1 << 20));
  Open();
  Reserve("first");
  Settle();
  stream().HoldWrites();
  for (const char* key : {"occupies the writer", "a", "bad", "b"}) Reserve(key);
  stream().ReleaseWrites();
  std::size_t refused = 0;
  for (const Reserved& answer : answers_.Await(5)) {
    if (!answer.ok()) {
      EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(answers_.size(), 5u);
  EXPECT_EQ(streams_.count(), 3u);
}

// With any number of faulty operations, and with any other operation open on the stream.
TEST_F(SessionConnectionTest, TheOthersAreAnsweredWhileCulpritsBreakOneStreamAfterAnother) {
  constexpr int kCulprits = 20;
  streams_.SetPeer([&](FakeSessionStream& link, const v1::SessionRequest& request) {
    const auto frames = link.frames();
    const auto self = std::find_if(frames.begin(), frames.end(), [&](const auto& frame) {
      return frame.operations(0).id() == request.operations(0).id();
    });
    v1::SessionResponse response;
    for (const auto& operation : request.operations()) {
      const std::string& key = operation.reserve().record_key().key();
      if (key.substr(0, 3) == "bad") {
        ErrorDetails details;
        details.metadata[std::string(kFrameDetail)] = absl::StrCat(self - frames.begin() + 1);
        return link.End(
            ToGrpcStatus(MakeError(Reason::kRequestInvalid, "no SessionRequest", details)));
      }
      // It waits for a running attempt, so that its frame is never answered completely.
      if (key != "waits") AnswerAsUsual(operation, response);
    }
    if (response.answers_size() > 0) link.ServerSends(response);
  });
  streams_.SetFirstFrame(Limits(1000, 1 << 20));
  Open();
  Answers<testing::Reserved> waiting;
  session_->Reserve(RequestWithKey("waits"), In(seconds(60)), waiting.Sink());
  Settle();
  stream().HoldWrites();
  Reserve("occupies the writer");
  for (int i = 0; i < kCulprits; ++i) {
    Reserve(absl::StrCat("good ", i));
    Reserve(absl::StrCat("bad ", i));
  }
  stream().ReleaseWrites();
  int refused = 0;
  for (const Reserved& answer : answers_.Await(1 + 2 * kCulprits)) {
    if (answer.ok()) continue;
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
    ++refused;
  }
  EXPECT_EQ(refused, kCulprits);
  EXPECT_EQ(answers_.size(), 1u + 2 * kCulprits);
  EXPECT_EQ(waiting.size(), 0u) << "it is sent again with every stream, and waits";
  // All of them in one frame, and then each by itself.
  EXPECT_EQ(streams_.count(), 2u + kCulprits);
  Settle();
  AnswerId(stream(streams_.count() - 1), /*id=*/1);
  EXPECT_TRUE(waiting.Await(1)[0].ok());
}

TEST_F(SessionConnectionTest, AStreamThatACulpritEndsBeforeItsFirstFrameCostsTheOthersNothing) {
  const auto invalid_frame = [](int frame) {
    ErrorDetails details;
    details.metadata[std::string(kFrameDetail)] = absl::StrCat(frame);
    return ToGrpcStatus(MakeError(Reason::kRequestInvalid, "no SessionRequest", details));
  };
  Open();
  Reserve("good");
  Settle();
  Reserve("bad");
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  stream().End(invalid_frame(2));
  Settle();
  EXPECT_EQ(answers_.size(), 0u);
  ASSERT_EQ(streams_.count(), 2u);
  ASSERT_EQ(stream(1).frames().size(), 2u);
  stream(1).End(invalid_frame(2));
  Settle();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(ReasonOf(answers_.Await(1)[0].status()), Reason::kRequestInvalid);
  ASSERT_EQ(streams_.count(), 3u);
  stream(2).ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(2), 1);
  EXPECT_TRUE(answers_.Await(2)[1].ok());
}

TEST_F(SessionConnectionTest, WhatMayBeACulpritSharesNoFrameWithWhatComesAfterIt) {
  ErrorDetails details;
  details.metadata[std::string(kFrameDetail)] = "2";
  Open();
  Reserve("1");
  stream().ServerSends(Limits(2, 1 << 20));
  Settle();
  Reserve("suspected");
  Settle();
  Reserve("waits for room");
  stream().End(ToGrpcStatus(MakeError(Reason::kRequestInvalid, "no SessionRequest", details)));
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  const auto frames = stream(1).frames();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_THAT(Contents(frames[0]), ElementsAre("reserve 1"));
  EXPECT_THAT(Contents(frames[1]), ElementsAre("reserve 2"));
  EXPECT_THAT(Contents(frames[2]), ElementsAre("reserve 3"));
}

// A detail that is not a number is ignored.
TEST_F(SessionConnectionTest, AnUnreadableFrameWithoutANumberIsTheFirstUnanswered) {
  ErrorDetails details;
  details.metadata[std::string(kFrameDetail)] = "the second";
  const grpc::Status invalid =
      ToGrpcStatus(MakeError(Reason::kRequestInvalid, "no SessionRequest", details));
  Open();
  Reserve("bad");
  OpenStream();
  Reserve("good");
  Settle();
  stream().End(invalid);
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  stream(1).End(invalid);
  Settle();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(ReasonOf(answers_.Await(1)[0].status()), Reason::kRequestInvalid);
  ASSERT_EQ(streams_.count(), 3u);
  EXPECT_THAT(Contents(stream(2).frames()[0]), ElementsAre("reserve 2"));
}

TEST_F(SessionConnectionTest, AnOperationWithATextThatIsNotUtf8IsNotSent) {
  Open();
  v1::ReserveRequest labelled = RequestWithKey("key");
  (*labelled.mutable_labels())["traceparent"] = "\xff";
  session_->Reserve(labelled, In(seconds(60)), answers_.Sink());
  v1::CompleteRequest complete;
  complete.mutable_reply()->set_message("\xc3");
  session_->Complete(complete, In(seconds(60)), StatusSink<v1::CompleteResponse>(answers_));
  v1::ReleaseRequest release;
  release.set_reason("\x80");
  session_->Release(release, In(seconds(60)), StatusSink<v1::ReleaseResponse>(answers_));
  v1::ExtendRequest extend;
  extend.mutable_record_key()->set_scope("\xff");
  session_->Extend(extend, In(seconds(60)), StatusSink<v1::ExtendResponse>(answers_));
  v1::GetRequest get;
  get.set_record_id("\xff");
  session_->Get(get, In(seconds(60)), StatusSink<v1::GetResponse>(answers_));
  const auto answers = answers_.Await(5);
  ASSERT_EQ(answers.size(), 5u);
  for (const Reserved& answer : answers) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
  }
  EXPECT_EQ(streams_.count(), 0u);
}

TEST_F(SessionConnectionTest, FramesHaveNoMoreOperationsThanTheServerTakes) {
  Open();
  Reserve("first");
  v1::SessionResponse limits = Limits(100, 1 << 20);
  limits.mutable_limits()->set_max_frame_operations(3);
  stream().ServerSends(limits);
  Settle();
  stream().HoldWrites();
  for (int i = 0; i < 8; ++i) Reserve(absl::StrCat(i), In(milliseconds(500)));
  stream().ReleaseWrites();
  Settle();
  stream().HoldWrites();
  // Abandoned, and so cancelled, in frames that keep within it, too.
  ASSERT_EQ(answers_.Await(8).size(), 8u);
  stream().ReleaseWrites();
  Settle();
  std::size_t operations = 0;
  for (const auto& frame : stream().frames()) {
    EXPECT_LE(frame.operations_size(), 3);
    operations += frame.operations_size();
  }
  EXPECT_GT(operations, 8u);
}

// Before its limits have arrived, and at servers that do not send this one.
TEST_F(SessionConnectionTest, AServerWithoutALimitOfOperationsInAFrameGetsAThousand) {
  Open();
  Reserve("first");
  Settle();
  const auto complete_many = [&] {
    const std::size_t before = stream().frames().size();
    stream().HoldWrites();
    for (int i = 0; i < 3000; ++i) Complete();
    stream().ReleaseWrites();
    Settle();
    const auto frames = stream().frames();
    // The first was sent alone, and occupied the writer.
    ASSERT_EQ(frames.size() - before, 4u);
    EXPECT_EQ(frames[before + 1].operations_size(), 1024);
    EXPECT_EQ(frames[before + 2].operations_size(), 1024);
  };
  complete_many();
  OpenStream();
  complete_many();
}

TEST_F(SessionConnectionTest, AServerMayTakeOneOperationAtATime) {
  Open();
  Reserve("first");
  v1::SessionResponse limits = Limits(100, 1 << 20);
  limits.mutable_limits()->set_max_frame_operations(1);
  stream().ServerSends(limits);
  Settle();
  stream().HoldWrites();
  for (const char* key : {"2", "3", "4"}) Reserve(key);
  stream().ReleaseWrites();
  Settle();
  EXPECT_EQ(stream().frames().size(), 4u);
}

// gRPC ends the whole stream for a message that it does not send.
TEST_F(SessionConnectionTest, OnlyTheOperationThatIsOverTheSendLimitIsRefused) {
  constexpr std::size_t kLimit = 2000;
  std::atomic<int> slow_arrivals{0};
  streams_.SetPeer([&](FakeSessionStream& link, const v1::SessionRequest& request) {
    if (request.ByteSizeLong() > kLimit) {
      return link.End(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                   "Sent message larger than max (3000 vs. 2000)"));
    }
    v1::SessionResponse response;
    for (const auto& operation : request.operations()) {
      // Sent before the frame that cannot be sent, and still unanswered.
      const bool slow = operation.reserve().record_key().key() == "slow" && slow_arrivals++ == 0;
      if (!slow) AnswerAsUsual(operation, response);
    }
    link.ServerSends(response);
  });
  streams_.SetFirstFrame(Limits(100, 1 << 20));
  Open();
  Reserve("first");
  Settle();
  stream().HoldWrites();
  for (const std::string& key :
       {std::string("slow"), std::string("a"), std::string(kLimit, 'x'), std::string("b")}) {
    Reserve(key);
  }
  stream().ReleaseWrites();
  std::size_t refused = 0;
  for (const Reserved& answer : answers_.Await(5)) {
    if (answer.ok()) continue;
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
    EXPECT_THAT(answer.status().message(), HasSubstr("session.operation: is over the send limit"));
    ++refused;
  }
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(answers_.size(), 5u);
  EXPECT_EQ(streams_.count(), 3u);
}

TEST_F(SessionConnectionTest, OperationsFromCallbacksOfOneFrameAreSentInOneFrame) {
  Open();
  for (int i = 0; i < 3; ++i) {
    session_->Reserve(RequestWithKey("k"), In(seconds(60)),
                      [&](const Reserved&) { Reserve("again"); });
  }
  OpenStream();
  const std::size_t before = stream().frames().size();
  AnswerAll(stream());
  ASSERT_EQ(stream().frames().size(), before + 1);
  EXPECT_THAT(Contents(stream().frames().back()),
              ElementsAre("reserve 4", "reserve 5", "reserve 6"));
  // Afterwards a lone operation is again written before the call returns.
  Reserve("lone");
  EXPECT_EQ(stream().frames().size(), before + 2);
}

}  // namespace
}  // namespace idempotency::internal
