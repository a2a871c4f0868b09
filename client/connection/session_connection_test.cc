#include "client/connection/session_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/connection/not_connected.h"
#include "client/testing/fake_service.h"
#include "client/testing/fake_session_streams.h"
#include "client/testing/scripted_connection.h"
#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::AnswerAsUsual;
using ::testing::ElementsAre;
using testing::FakeSessionStream;
using testing::FakeSessionStreams;
using ::testing::HasSubstr;
using testing::Limits;

using Reserved = absl::StatusOr<v1::ReserveResponse>;

Connection::Deadline In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "the stream broke");

v1::ReserveRequest RequestWithKey(const std::string& key) {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key(key);
  return request;
}

// Collects the answers to operations, in the order in which they came.
class Answers {
 public:
  Connection::Callback<v1::ReserveResponse> Expect() {
    return [this](Reserved answer) {
      MutexLock lock(mutex_);
      answers_.push_back(std::move(answer));
      changed_.NotifyAll();
    };
  }
  // For operations whose answers only have to be counted.
  template <typename Response>
  Connection::Callback<Response> ExpectEnd() {
    return [this](const absl::StatusOr<Response>& answer) {
      MutexLock lock(mutex_);
      answers_.push_back(answer.ok() ? Reserved(v1::ReserveResponse()) : Reserved(answer.status()));
      changed_.NotifyAll();
    };
  }
  // All that there are after 10 s.
  std::vector<Reserved> Wait(std::size_t count) {
    MutexLock lock(mutex_);
    const auto deadline = In(seconds(10));
    while (answers_.size() < count && changed_.WaitUntil(lock, deadline)) {
    }
    return answers_;
  }
  std::size_t count() {
    MutexLock lock(mutex_);
    return answers_.size();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Reserved> answers_ ABSL_GUARDED_BY(mutex_);
};

// Serves while there are no sessions: answers reservations with the key.
std::unique_ptr<Connection> FakeUnary(std::atomic<int>& calls) {
  return std::make_unique<ScriptedConnection>(
      [&calls](const AnyConnectionCall& call, Connection::Deadline /*deadline*/) {
        ++calls;
        using Reserve = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
        const auto* const reserve = std::get_if<Reserve>(&call);
        if (reserve == nullptr) return AnswerEmpty(call);
        v1::ReserveResponse response;
        response.set_record_id(absl::StrCat("unary ", reserve->request.record_key().key()));
        reserve->done(response);
      });
}

// The lines of the application's log.
class LogLines {
 public:
  LogSink Sink() {
    return [this](LogSeverity, std::string_view line) {
      MutexLock lock(mutex_);
      lines_.emplace_back(line);
    };
  }
  // The lines that contain `part`.
  std::size_t Count(std::string_view part) {
    MutexLock lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }
  std::size_t count() { return Count(""); }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

// The content of a frame, as "reserve 1".
std::vector<std::string> Contents(const v1::SessionRequest& frame) {
  const auto* descriptor = v1::SessionOperation::descriptor();
  std::vector<std::string> contents;
  for (const auto& operation : frame.operations()) {
    contents.push_back(absl::StrCat(
        descriptor->FindFieldByNumber(operation.operation_case())->name(), " ", operation.id()));
  }
  return contents;
}

class SessionConnectionTest : public ::testing::Test {
 protected:
  void TearDown() override {
    session_.reset();
    streams_.network().Settle();
  }

  void Open(SessionConnectionOptions options = {}) {
    session_ = std::make_unique<SessionConnection>(streams_.Factory(), FakeUnary(unary_calls_),
                                                   options, ApplicationLog(log_.Sink()));
  }
  void Settle() { streams_.network().Settle(); }
  FakeSessionStream& stream(std::size_t index = 0) { return streams_.at(index); }

  void Reserve(const std::string& key, Connection::Deadline deadline = In(seconds(60))) {
    session_->Reserve(RequestWithKey(key), deadline, answers_.Expect());
  }
  void Complete() {
    session_->Complete(v1::CompleteRequest(), In(seconds(60)),
                       answers_.ExpectEnd<v1::CompleteResponse>());
  }
  // An operation that keeps the first stream writing, so that those after it gather.
  void OccupyWriter() {
    Reserve("first");
    stream().Say(Limits(100, 1 << 20));
    Settle();
    stream().HoldWrites();
    Reserve("second");
  }
  void AnswerAll(FakeSessionStream& on) {
    v1::SessionResponse answers;
    for (const auto& frame : on.frames()) {
      for (const auto& operation : frame.operations()) {
        if (!operation.has_cancel()) AnswerAsUsual(operation, answers);
      }
    }
    on.Say(answers);
    Settle();
  }
  void AnswerId(FakeSessionStream& on, std::uint64_t id) {
    v1::SessionOperation operation;
    operation.set_id(id);
    operation.mutable_reserve()->mutable_record_key()->set_key(absl::StrCat("id ", id));
    v1::SessionResponse answer;
    AnswerAsUsual(operation, answer);
    on.Say(answer);
    Settle();
  }

  LogLines log_;
  FakeSessionStreams streams_;
  std::atomic<int> unary_calls_{0};
  Answers answers_;
  std::unique_ptr<SessionConnection> session_;
};

void ExpectStoreUnavailable(const Reserved& answer) {
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable) << answer.status();
}

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
  stream().Say(Limits(100, 1 << 20));
  Settle();
  AnswerId(stream(), 2);
  AnswerId(stream(), 1);
  const auto answers = answers_.Wait(2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]->record_id(), "id 2");
  EXPECT_EQ(answers[1]->record_id(), "id 1");
}

TEST_F(SessionConnectionTest, WhatGathersLeavesTogetherAndWhatEndsWorkLeavesFirst) {
  Open();
  OccupyWriter();
  Reserve("third");
  session_->Get(v1::GetRequest(), In(seconds(60)), answers_.ExpectEnd<v1::GetResponse>());
  Complete();
  session_->Extend(v1::ExtendRequest(), In(seconds(60)), answers_.ExpectEnd<v1::ExtendResponse>());
  session_->Release(v1::ReleaseRequest(), In(seconds(60)),
                    answers_.ExpectEnd<v1::ReleaseResponse>());
  EXPECT_EQ(stream().frames().size(), 2u);
  stream().ReleaseWrites();
  Settle();
  ASSERT_EQ(stream().frames().size(), 3u);
  EXPECT_THAT(Contents(stream().frames()[2]),
              ElementsAre("complete 5", "extend 6", "release 7", "reserve 3", "get 4"));
  AnswerAll(stream());
  for (const Reserved& answer : answers_.Wait(7)) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answers_.count(), 7u);
}

TEST_F(SessionConnectionTest, FramesKeepToTheServersLimit) {
  Open();
  Reserve("first");
  stream().Say(Limits(100, 1000));
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
    session_->Complete(complete, In(seconds(60)), answers_.ExpectEnd<v1::CompleteResponse>());
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
  stream().Say(Limits(1000, 16 << 20));
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
  stream().Say(Limits(100, 1000));
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
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kRequestInvalid);
  EXPECT_THAT(answers[0].status().message(),
              AllOf(HasSubstr("session.operation: "),
                    HasSubstr(absl::StrCat(" ", limits::kMaxMessageBytes, " bytes"))));
}

TEST_F(SessionConnectionTest, AnOperationWhoseDeadlineHasPassedIsNotSent) {
  Open();
  Reserve("late", In(-seconds(1)));
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  ExpectStoreUnavailable(answers[0]);
  EXPECT_THAT(answers[0].status().message(), HasSubstr("deadline"));
  EXPECT_EQ(streams_.count(), 0u);
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
    link.Say(response);
  });
  streams_.SetFirstFrame(Limits(100, 1 << 20));
  Open();
  Reserve("first");
  Settle();
  stream().HoldWrites();
  for (const char* key : {"occupies the writer", "a", "bad", "b"}) Reserve(key);
  stream().ReleaseWrites();
  std::size_t refused = 0;
  for (const Reserved& answer : answers_.Wait(5)) {
    if (!answer.ok()) {
      EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(answers_.count(), 5u);
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
    if (response.answers_size() > 0) link.Say(response);
  });
  streams_.SetFirstFrame(Limits(1000, 1 << 20));
  Open();
  Answers waiting;
  session_->Reserve(RequestWithKey("waits"), In(seconds(60)), waiting.Expect());
  Settle();
  stream().HoldWrites();
  Reserve("occupies the writer");
  for (int i = 0; i < kCulprits; ++i) {
    Reserve(absl::StrCat("good ", i));
    Reserve(absl::StrCat("bad ", i));
  }
  stream().ReleaseWrites();
  int refused = 0;
  for (const Reserved& answer : answers_.Wait(1 + 2 * kCulprits)) {
    if (answer.ok()) continue;
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
    ++refused;
  }
  EXPECT_EQ(refused, kCulprits);
  EXPECT_EQ(answers_.count(), 1u + 2 * kCulprits);
  EXPECT_EQ(waiting.count(), 0u) << "it is sent again with every stream, and waits";
  // All of them in one frame, and then each by itself.
  EXPECT_EQ(streams_.count(), 2u + kCulprits);
  Settle();
  AnswerId(stream(streams_.count() - 1), /*id=*/1);
  EXPECT_TRUE(waiting.Wait(1)[0].ok());
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
  EXPECT_EQ(answers_.count(), 0u);
  ASSERT_EQ(streams_.count(), 2u);
  ASSERT_EQ(stream(1).frames().size(), 2u);
  stream(1).End(invalid_frame(2));
  Settle();
  ASSERT_EQ(answers_.count(), 1u);
  EXPECT_EQ(ReasonOf(answers_.Wait(1)[0].status()), Reason::kRequestInvalid);
  ASSERT_EQ(streams_.count(), 3u);
  stream(2).Say(Limits(100, 1 << 20));
  AnswerId(stream(2), 1);
  EXPECT_TRUE(answers_.Wait(2)[1].ok());
}

TEST_F(SessionConnectionTest, WhatMayBeACulpritSharesNoFrameWithWhatComesAfterIt) {
  ErrorDetails details;
  details.metadata[std::string(kFrameDetail)] = "2";
  Open();
  Reserve("1");
  stream().Say(Limits(2, 1 << 20));
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
  stream().Say(Limits(100, 1 << 20));
  Settle();
  Reserve("good");
  Settle();
  stream().End(invalid);
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  stream(1).End(invalid);
  Settle();
  ASSERT_EQ(answers_.count(), 1u);
  EXPECT_EQ(ReasonOf(answers_.Wait(1)[0].status()), Reason::kRequestInvalid);
  ASSERT_EQ(streams_.count(), 3u);
  EXPECT_THAT(Contents(stream(2).frames()[0]), ElementsAre("reserve 2"));
}

TEST_F(SessionConnectionTest, AnOperationWithATextThatIsNotUtf8IsNotSent) {
  Open();
  v1::ReserveRequest labelled = RequestWithKey("key");
  (*labelled.mutable_labels())["traceparent"] = "\xff";
  session_->Reserve(labelled, In(seconds(60)), answers_.Expect());
  v1::CompleteRequest complete;
  complete.mutable_reply()->set_message("\xc3");
  session_->Complete(complete, In(seconds(60)), answers_.ExpectEnd<v1::CompleteResponse>());
  v1::ReleaseRequest release;
  release.set_reason("\x80");
  session_->Release(release, In(seconds(60)), answers_.ExpectEnd<v1::ReleaseResponse>());
  v1::ExtendRequest extend;
  extend.mutable_record_key()->set_scope("\xff");
  session_->Extend(extend, In(seconds(60)), answers_.ExpectEnd<v1::ExtendResponse>());
  v1::GetRequest get;
  get.set_record_id("\xff");
  session_->Get(get, In(seconds(60)), answers_.ExpectEnd<v1::GetResponse>());
  const auto answers = answers_.Wait(5);
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
  stream().Say(limits);
  Settle();
  stream().HoldWrites();
  for (int i = 0; i < 8; ++i) Reserve(absl::StrCat(i), In(milliseconds(500)));
  stream().ReleaseWrites();
  Settle();
  stream().HoldWrites();
  // Abandoned, and so cancelled, in frames that keep within it, too.
  ASSERT_EQ(answers_.Wait(8).size(), 8u);
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
  stream().Say(Limits(100, 1 << 20));
  Settle();
  complete_many();
}

TEST_F(SessionConnectionTest, AServerMayTakeOneOperationAtATime) {
  Open();
  Reserve("first");
  v1::SessionResponse limits = Limits(100, 1 << 20);
  limits.mutable_limits()->set_max_frame_operations(1);
  stream().Say(limits);
  Settle();
  stream().HoldWrites();
  for (const char* key : {"2", "3", "4"}) Reserve(key);
  stream().ReleaseWrites();
  Settle();
  EXPECT_EQ(stream().frames().size(), 4u);
}

TEST_F(SessionConnectionTest, NoMoreThanTheWindowIsUnansweredAndCompletionsAreNotCounted) {
  Open();
  Reserve("1");
  stream().Say(Limits(2, 1 << 20));
  Settle();
  Reserve("2");
  Settle();
  Reserve("3");
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  Complete();
  Settle();
  ASSERT_EQ(stream().frames().size(), 3u);
  EXPECT_THAT(Contents(stream().frames()[2]), ElementsAre("complete 4"));
  AnswerId(stream(), 1);
  ASSERT_EQ(stream().frames().size(), 4u);
  EXPECT_THAT(Contents(stream().frames()[3]), ElementsAre("reserve 3"));
}

TEST_F(SessionConnectionTest, TheAnswerToACompletionLeavesTheWindowAsItWas) {
  Open();
  Complete();
  stream().Say(Limits(1, 1 << 20));
  AnswerAll(stream());
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  Reserve("2");
  EXPECT_EQ(stream().frames().size(), 2u);
  Reserve("3");
  Settle();
  EXPECT_EQ(stream().frames().size(), 2u);
}

// It does not wait at the server.
TEST_F(SessionConnectionTest, AnAbandonedCompletionIsNotCancelled) {
  Open();
  session_->Complete(v1::CompleteRequest(), In(milliseconds(30)),
                     answers_.ExpectEnd<v1::CompleteResponse>());
  stream().Say(Limits(1, 1 << 20));
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  Reserve("2");
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  EXPECT_THAT(Contents(stream().frames()[1]), ElementsAre("reserve 2"));
}

TEST_F(SessionConnectionTest, OneTooManyWaitingIsOverloaded) {
  SessionConnectionOptions options;
  options.max_waiting = 2;
  Open(options);
  Reserve("1");
  stream().Say(Limits(1, 1 << 20));
  Settle();
  for (const char* key : {"2", "3", "4"}) Reserve(key);
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(ReasonOf(answers[0].status()), Reason::kOverloaded);
  EXPECT_GT(DetailsOf(answers[0].status()).retry_delay, absl::ZeroDuration());
}

TEST_F(SessionConnectionTest, TheTimeThatIsLeftTravels) {
  Open();
  Reserve("1", In(seconds(5)));
  Settle();
  Reserve("2", Connection::Deadline::max());
  Settle();
  const auto first = stream().frames()[0].operations(0);
  EXPECT_TRUE(first.timeout().seconds() == 4 || first.timeout().seconds() == 5);
  EXPECT_LT(first.timeout().nanos(), 1'000'000'000);
  EXPECT_FALSE(stream().frames()[1].operations(0).has_timeout());
}

// The caller gets an answer, the server gets a cancel, and the operation counts against the
// window until the server's answer arrives, which is dropped.
TEST_F(SessionConnectionTest, APassedDeadlineAbandonsAReservation) {
  Open();
  Reserve("1", In(milliseconds(30)));
  stream().Say(Limits(1, 1 << 20));
  Settle();
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  ExpectStoreUnavailable(answers[0]);
  EXPECT_THAT(answers[0].status().message(), HasSubstr("deadline"));
  // The timer writes the cancel before it answers the caller.
  Settle();
  ASSERT_EQ(stream().frames().size(), 2u);
  EXPECT_THAT(Contents(stream().frames()[1]), ElementsAre("cancel 1"));
  Reserve("2");
  Settle();
  EXPECT_EQ(stream().frames().size(), 2u);
  AnswerId(stream(), 1);
  EXPECT_EQ(stream().frames().size(), 3u);
  EXPECT_EQ(answers_.count(), 1u);
  EXPECT_FALSE(stream().cancelled());
}

TEST_F(SessionConnectionTest, ADeadlineWhileWaitingSendsNothing) {
  Open();
  Reserve("1");
  stream().Say(Limits(1, 1 << 20));
  Settle();
  Reserve("2", In(milliseconds(30)));
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  AnswerId(stream(), 1);
  Settle();
  EXPECT_EQ(stream().frames().size(), 1u);
}

// Each later than the planned one, then one before it.
TEST_F(SessionConnectionTest, DeadlinesAreKeptInAnyOrder) {
  Open();
  Mutex mutex;
  CondVar changed;
  std::vector<int> order;
  for (const int wait_ms : {400, 700, 1000, 100}) {
    session_->Reserve(RequestWithKey("k"), In(milliseconds(wait_ms)),
                      [&, wait_ms](const Reserved&) {
                        MutexLock lock(mutex);
                        order.push_back(wait_ms);
                        changed.NotifyAll();
                      });
  }
  MutexLock lock(mutex);
  const auto deadline = In(seconds(10));
  while (order.size() < 4 && changed.WaitUntil(lock, deadline)) {
  }
  EXPECT_THAT(order, ElementsAre(100, 400, 700, 1000));
}

TEST_F(SessionConnectionTest, WhatABrokenStreamLeavesOpenIsSentAgainWithTheSameToken) {
  Open();
  Reserve("1");
  stream().Say(Limits(100, 1 << 20));
  Settle();
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
  stream(1).Say(Limits(100, 1 << 20));
  AnswerAll(stream(1));
  for (const Reserved& answer : answers_.Wait(2)) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answers_.count(), 2u);
}

TEST_F(SessionConnectionTest, ACallersOwnTokenIsKept) {
  Open();
  v1::ReserveRequest request = RequestWithKey("k");
  request.set_request_token("mine");
  session_->Reserve(request, In(seconds(60)), answers_.Expect());
  EXPECT_EQ(stream().frames()[0].operations(0).reserve().request_token(), "mine");
}

// An answer that was read before the break is not requested again.
TEST_F(SessionConnectionTest, OnlyTheUnansweredIsSentAgain) {
  Open();
  Reserve("1");
  stream().Say(Limits(100, 1 << 20));
  Settle();
  Reserve("2");
  AnswerId(stream(), 1);
  stream().End(kBroken);
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 2"));
  EXPECT_EQ(answers_.count(), 1u);
}

TEST_F(SessionConnectionTest, AnUnreachableDaemonIsReportedAtOnceAndTriedAgainByTheNext) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    EXPECT_EQ(answers_.count(), 0u);
    stream(i).End(kBroken);
    Settle();
  }
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  ExpectStoreUnavailable(answers[0]);
  const std::size_t tried = streams_.count();
  EXPECT_EQ(tried, 3u);
  // Still unreachable: one try each.
  Reserve("2");
  ASSERT_EQ(streams_.count(), tried + 1);
  stream(tried).End(kBroken);
  EXPECT_EQ(answers_.Wait(2).size(), 2u);
  Settle();
  EXPECT_EQ(streams_.count(), tried + 1);
  // Reachable again.
  Reserve("3");
  Settle();
  stream(tried + 1).Say(Limits(100, 1 << 20));
  AnswerAll(stream(tried + 1));
  ASSERT_EQ(answers_.Wait(3).size(), 3u);
  EXPECT_TRUE(answers_.Wait(3)[2].ok());
  EXPECT_EQ(log_.Count("calls to idempotencyd fail"), 1u);
  EXPECT_EQ(log_.Count("answers again"), 1u);
}

// Only consecutive streams count.
TEST_F(SessionConnectionTest, AStreamThatOpenedMakesGoodTheOnesThatDidNot) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < 2; ++i) {
    stream(i).End(kBroken);
    Settle();
  }
  stream(2).Say(Limits(100, 1 << 20));
  Settle();
  for (std::size_t i = 2; i < 5; ++i) {
    ASSERT_EQ(streams_.count(), i + 1);
    EXPECT_EQ(answers_.count(), 0u);
    stream(i).End(kBroken);
    Settle();
  }
  EXPECT_EQ(answers_.count(), 0u) << "one that opened, and two that did not";
  stream(5).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.count(), 1u);
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
  stream(2).Say(draining);
  Settle();
  stream(2).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.count(), 0u);
  ASSERT_EQ(streams_.count(), 4u);
  stream(3).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.count(), 1u);
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
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  ExpectStoreUnavailable(answers[0]);
  EXPECT_TRUE(IsNotConnected(answers[0].status())) << answers[0].status();
}

TEST_F(SessionConnectionTest, WhatOneStreamHadAConnectionForMayHaveBeenSent) {
  Open();
  Reserve("1");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    if (i > 0) stream(i).HadNoConnection();
    stream(i).End(kBroken);
    Settle();
  }
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  ExpectStoreUnavailable(answers[0]);
  EXPECT_FALSE(IsNotConnected(answers[0].status()));
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
    link.Say(response);
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
  for (const Reserved& answer : answers_.Wait(5)) {
    if (answer.ok()) continue;
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
    EXPECT_THAT(answer.status().message(), HasSubstr("session.operation: is over the send limit"));
    ++refused;
  }
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(answers_.count(), 5u);
  EXPECT_EQ(streams_.count(), 3u);
}

TEST_F(SessionConnectionTest, ARefusalIsNotRetried) {
  Open();
  Reserve("1");
  stream().End(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "secret.host"));
  const auto answers = answers_.Wait(1);
  ASSERT_EQ(answers.size(), 1u);
  ExpectStoreUnavailable(answers[0]);
  EXPECT_THAT(answers[0].status().message(), HasSubstr("status code 7"));
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
  EXPECT_EQ(answers_.count(), 3u);
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, AnOperationThatBreaksEveryStreamIsAbandoned) {
  Open();
  Reserve("poison");
  for (std::size_t i = 0; i < streams_.count(); ++i) {
    stream(i).Say(Limits(100, 1 << 20));
    Settle();
    stream(i).End(kBroken);
    Settle();
  }
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  ExpectStoreUnavailable(answers_.Wait(1)[0]);
  EXPECT_EQ(streams_.count(), 8u);
}

TEST_F(SessionConnectionTest, ADrainingServerIsLeftWithoutLosingAnything) {
  Open();
  Reserve("1");
  stream().Say(Limits(100, 1 << 20));
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().Say(draining);
  Settle();
  EXPECT_FALSE(stream().half_closed());
  Reserve("2");
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_EQ(stream().frames().size(), 1u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 2"));
  AnswerId(stream(), 1);
  EXPECT_TRUE(stream().half_closed());
  EXPECT_TRUE(answers_.Wait(1)[0].ok());
  stream().End(grpc::Status::OK);
  Settle();
  stream(1).Say(Limits(100, 1 << 20));
  AnswerId(stream(1), 2);
  EXPECT_TRUE(answers_.Wait(2)[1].ok());
  EXPECT_EQ(streams_.count(), 2u);
}

TEST_F(SessionConnectionTest, AnIdleDrainingStreamIsHalfClosedAtOnce) {
  Open();
  Reserve("1");
  stream().Say(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().Say(draining);
  Settle();
  EXPECT_TRUE(stream().half_closed());
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, AHalfClosedStreamThatTheServerDoesNotEndIsCancelled) {
  SessionConnectionOptions options;
  options.silence_allowed = milliseconds(50);
  Open(options);
  Reserve("1");
  stream().Say(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().Say(draining);
  Settle();
  ASSERT_TRUE(stream().half_closed());
  EXPECT_FALSE(stream().cancelled());
  const auto deadline = In(seconds(10));
  while (!stream().cancelled() && std::chrono::steady_clock::now() < deadline) Settle();
  EXPECT_TRUE(stream().cancelled());
}

TEST_F(SessionConnectionTest, OperationsFromCallbacksOfOneFrameAreSentInOneFrame) {
  Open();
  for (int i = 0; i < 3; ++i) {
    session_->Reserve(RequestWithKey("k"), In(seconds(60)),
                      [&](const Reserved&) { Reserve("again"); });
  }
  stream().Say(Limits(100, 1 << 20));
  Settle();
  const std::size_t before = stream().frames().size();
  AnswerAll(stream());
  ASSERT_EQ(stream().frames().size(), before + 1);
  EXPECT_THAT(Contents(stream().frames().back()),
              ElementsAre("reserve 4", "reserve 5", "reserve 6"));
  // Afterwards a lone operation is again written before the call returns.
  Reserve("lone");
  EXPECT_EQ(stream().frames().size(), before + 2);
}

TEST_F(SessionConnectionTest, TheRoomThatAnAnswerMakesIsUsedBeforeItsCallbackRuns) {
  Open();
  std::size_t frames = 0;
  session_->Reserve(RequestWithKey("1"), In(seconds(60)),
                    [&](const Reserved&) { frames = stream().frames().size(); });
  stream().Say(Limits(1, 1 << 20));
  Settle();
  Reserve("waits for room");
  AnswerId(stream(), 1);
  EXPECT_EQ(frames, 2u);
}

TEST_F(SessionConnectionTest, AnswersOfAServerThatBrokeARuleDoNotCount) {
  Open();
  Reserve("1");
  v1::SessionResponse wrong = Limits(100, 1 << 20);
  wrong.add_answers()->set_id(77);
  v1::SessionResponse right;
  AnswerAsUsual(stream().frames()[0].operations(0), right);
  stream().Say(wrong);
  stream().Say(right);
  Settle();
  EXPECT_EQ(answers_.count(), 0u);
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 1"));
}

TEST_F(SessionConnectionTest, NothingMoreIsWrittenToAServerThatBrokeARule) {
  Open();
  Reserve("1");
  stream().Say(Limits(1, 1 << 20));
  Settle();
  Reserve("waits for room");
  v1::SessionResponse frame;
  AnswerAsUsual(stream().frames()[0].operations(0), frame);
  frame.add_answers()->set_id(77);
  stream().Say(frame);
  Settle();
  EXPECT_EQ(stream().frames().size(), 1u);
  ASSERT_EQ(streams_.count(), 2u);
  EXPECT_THAT(Contents(stream(1).frames()[0]), ElementsAre("reserve 2"));
}

TEST_F(SessionConnectionTest, ADrainingStreamIsHalfClosedOnceAbandonedOperationsAreAnswered) {
  Open();
  Reserve("1");
  stream().Say(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  Reserve("given up", In(milliseconds(30)));
  ASSERT_EQ(answers_.Wait(2).size(), 2u);
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().Say(draining);
  Settle();
  EXPECT_FALSE(stream().half_closed());
  AnswerId(stream(), 2);
  EXPECT_TRUE(stream().half_closed());
  EXPECT_FALSE(stream().cancelled());
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
  stream().Say(frame);
  const auto answers = answers_.Wait(1);
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
  stream().Say(frame);
  Settle();
  EXPECT_TRUE(stream().cancelled());
  ASSERT_EQ(streams_.count(), 2u);
  stream(1).Say(Limits(100, 1 << 20));
  AnswerAll(stream(1));
  const auto answers = answers_.Wait(2);
  EXPECT_EQ(answers.size(), 2u);
  for (const Reserved& answer : answers) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Contents(stream(1).frames()[0]).size(), 2u - answered);
  // Once, over any number of streams.
  v1::SessionResponse never_asked;
  never_asked.add_answers()->set_id(77);
  stream(1).Say(never_asked);
  Settle();
  EXPECT_TRUE(stream(1).cancelled());
  EXPECT_EQ(log_.Count("violated the session protocol"), 1u);
}

INSTANTIATE_TEST_SUITE_P(Rules, RogueServer, ::testing::Range(0, 6));

TEST_F(SessionConnectionTest, ASilentServerWithUnansweredOperationsIsAbandoned) {
  SessionConnectionOptions options;
  options.silence_allowed = milliseconds(50);
  Open(options);
  Reserve("1");
  stream().Say(Limits(1, 1 << 20));
  Settle();
  AnswerId(stream(), 1);
  Reserve("2", In(milliseconds(20)));
  Reserve("3", In(seconds(60)));
  ASSERT_EQ(answers_.Wait(2).size(), 2u);
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
  options.silence_allowed = milliseconds(50);
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
  stream().Say(frame);
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
  SessionConnectionOptions options;
  options.streams = 2;
  options.silence_allowed = milliseconds(50);
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  stream(0).Say(Limits(100, 1 << 20));
  Settle();
  stream(1).Say(Limits(100, 1 << 20));
  Settle();
  // By the stream that has fewer unanswered operations.
  Reserve("2", In(milliseconds(20)));
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  const auto deadline = In(seconds(10));
  while (!stream(1).cancelled() && std::chrono::steady_clock::now() < deadline) Settle();
  EXPECT_TRUE(stream(1).cancelled());
  EXPECT_FALSE(stream(0).cancelled());
}

TEST_F(SessionConnectionTest, AServerThatSendsOtherAnswersIsAlive) {
  SessionConnectionOptions options;
  options.silence_allowed = milliseconds(1000);
  Open(options);
  Reserve("owed", In(milliseconds(20)));
  Reserve("2");
  stream().Say(Limits(100, 1 << 20));
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  AnswerId(stream(), 2);
  // Ends after the deadline of the first one would have passed.
  Reserve("3", In(milliseconds(1300)));
  ASSERT_EQ(answers_.Wait(3).size(), 3u);
  EXPECT_FALSE(stream().cancelled());
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, AServerWithoutSessionsGetsUnaryCallsAndNoCallerGetsAnError) {
  Open();
  Reserve("1");
  Complete();
  stream().End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  auto answers = answers_.Wait(2);
  ASSERT_EQ(answers.size(), 2u);
  for (const Reserved& answer : answers) EXPECT_TRUE(answer.ok()) << answer.status();
  Reserve("2");
  answers = answers_.Wait(3);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[2]->record_id(), "unary 2");
  EXPECT_EQ(unary_calls_, 3);
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, OperationsOfEveryKindTakeTheUnaryWay) {
  Open();
  Reserve("1");
  stream().End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  Reserve("2");
  Complete();
  session_->Release(v1::ReleaseRequest(), In(seconds(60)),
                    answers_.ExpectEnd<v1::ReleaseResponse>());
  session_->Extend(v1::ExtendRequest(), In(seconds(60)), answers_.ExpectEnd<v1::ExtendResponse>());
  session_->Get(v1::GetRequest(), In(seconds(60)), answers_.ExpectEnd<v1::GetResponse>());
  const auto answers = answers_.Wait(6);
  ASSERT_EQ(answers.size(), 6u);
  for (const Reserved& answer : answers) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(unary_calls_, 6);
  EXPECT_EQ(streams_.count(), 1u);
}

TEST_F(SessionConnectionTest, SessionsAreTriedAgainAndTaken) {
  SessionConnectionOptions options;
  options.retry_session_after = milliseconds(30);
  Open(options);
  Reserve("1");
  const grpc::Status unimplemented(grpc::StatusCode::UNIMPLEMENTED, "unknown method");
  stream().End(unimplemented);
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
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
  stream(2).Say(Limits(100, 1 << 20));
  Settle();
  Reserve("3");
  Settle();
  EXPECT_EQ(unary_calls_, 2);
  EXPECT_EQ(stream(2).frames().size(), 1u);
  EXPECT_EQ(log_.Count("idempotencyd supports sessions now"), 1u);
  EXPECT_EQ(log_.count(), 2u);
}

TEST_F(SessionConnectionTest, OperationsGoToTheStreamWithTheFewestUnanswered) {
  SessionConnectionOptions options;
  options.streams = 2;
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  for (std::size_t i = 0; i < 2; ++i) stream(i).Say(Limits(100, 1 << 20));
  Settle();
  for (const char* key : {"2", "3", "4", "5", "6"}) {
    Reserve(key);
    Settle();
  }
  EXPECT_EQ(stream(0).frames().size(), 3u);
  EXPECT_EQ(stream(1).frames().size(), 3u);
  // One breaks: the other carries its operations.
  stream(0).End(kBroken);
  Settle();
  EXPECT_EQ(answers_.count(), 0u);
}

TEST_F(SessionConnectionTest, OnceAStreamHasOpenedNoOtherIsTriedBesideIt) {
  SessionConnectionOptions options;
  options.streams = 2;
  options.retry_session_after = milliseconds(1000);
  Open(options);
  Reserve("1");
  stream(0).End(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method"));
  ASSERT_EQ(answers_.Wait(1).size(), 1u);
  stream(1).Say(Limits(100, 1 << 20));
  Settle();
  // Abandoned after the time at which sessions would have been tried again.
  Reserve("2", In(milliseconds(1300)));
  ASSERT_EQ(answers_.Wait(2).size(), 2u);
  EXPECT_EQ(stream(1).frames().size(), 2u) << "the reservation, and that it was given up";
  EXPECT_EQ(streams_.count(), 2u);
}

TEST_F(SessionConnectionTest, ABrokenStreamIsReplacedWhileAnotherOneIsStillOpening) {
  SessionConnectionOptions options;
  options.streams = 2;
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  stream(0).Say(Limits(100, 1 << 20));
  Settle();
  stream(0).End(kBroken);
  Settle();
  EXPECT_EQ(streams_.count(), 3u);
}

TEST_F(SessionConnectionTest, ThereIsAlwaysOneStream) {
  SessionConnectionOptions options;
  options.streams = 0;
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 1u);
  EXPECT_EQ(stream().frames().size(), 1u);
}

// For example to a port without a listener: each try may take its time.
TEST_F(SessionConnectionTest,
       AStreamThatDoesNotOpenBesideOneThatWorksIsNotTriedWithEveryOperation) {
  SessionConnectionOptions options;
  options.streams = 2;
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  stream(0).Say(Limits(100, 1 << 20));
  Settle();
  stream(1).End(kBroken);
  Settle();
  for (int i = 0; i < 10; ++i) {
    Reserve("k");
    Settle();
  }
  EXPECT_EQ(streams_.count(), 2u);
  EXPECT_EQ(stream(0).frames().size(), 11u);
  EXPECT_EQ(answers_.count(), 0u);
}

// Daemons of two versions behind one address.
TEST_F(SessionConnectionTest, AServerWithoutSessionsBesideOneThatHasThemIsNotUsed) {
  SessionConnectionOptions options;
  options.streams = 2;
  Open(options);
  Reserve("1");
  ASSERT_EQ(streams_.count(), 2u);
  stream(0).Say(Limits(100, 1 << 20));
  Settle();
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
  Answers late;
  SessionConnection* const session = session_.get();
  for (int i = 0; i < 5; ++i) {
    session->Reserve(RequestWithKey("k"), In(seconds(60)), [&, session](Reserved answer) {
      answers_.Expect()(std::move(answer));
      session->Reserve(RequestWithKey("again"), In(seconds(60)), late.Expect());
    });
  }
  stream().Say(Limits(2, 1 << 20));
  Settle();
  session_.reset();
  EXPECT_EQ(answers_.count(), 5u);
  EXPECT_EQ(late.count(), 5u);
  for (const Reserved& answer : answers_.Wait(5)) ExpectStoreUnavailable(answer);
  for (const Reserved& answer : late.Wait(5)) ExpectStoreUnavailable(answer);
  EXPECT_THAT(late.Wait(5)[0].status().message(), HasSubstr("was cancelled"));
  EXPECT_EQ(log_.count(), 0u) << "it says nothing of the daemon";
}

TEST_F(SessionConnectionTest, DestructionOpensNoStreamForWhatStillWaits) {
  Open();
  OccupyWriter();
  Reserve("waits");
  session_.reset();
  EXPECT_EQ(streams_.count(), 1u);
  EXPECT_EQ(answers_.count(), 3u);
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
  stream().Say(Limits(100, 1 << 20));
  Settle();
  for (const std::uint64_t id : {1, 2}) {
    v1::SessionOperation operation;
    operation.set_id(id);
    operation.mutable_reserve();
    v1::SessionResponse answer;
    AnswerAsUsual(operation, answer);
    stream().Say(answer);
  }
  called.get_future().wait();
  auto destroyed = std::async(std::launch::async, [&] { session_.reset(); });
  ExpectStoreUnavailable(answers_.Wait(1)[0]);
  go_on.set_value();
  destroyed.get();
  EXPECT_EQ(answers_.count(), 1u);
}

TEST_F(SessionConnectionTest, DestructionWaitsForTheCallbacksOfAStreamThatEnded) {
  Open();
  std::promise<void> called;
  std::promise<void> go_on;
  session_->Reserve(RequestWithKey("k"), In(seconds(60)), [&](const Reserved&) {
    called.set_value();
    go_on.get_future().wait();
  });
  stream().End(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no"));
  called.get_future().wait();
  auto destroyed = std::async(std::launch::async, [&] { session_.reset(); });
  EXPECT_EQ(destroyed.wait_for(milliseconds(50)), std::future_status::timeout);
  go_on.set_value();
  destroyed.get();
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
    stream.Say(response);
    if (number % 61 == 0) stream.End(grpc::Status::OK);
  });
  SessionConnectionOptions options;
  options.streams = 2;
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
