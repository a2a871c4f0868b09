#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/answer_kind.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "server/access/access_control.h"
#include "server/access/access_policy.h"
#include "server/access/json_web_key.h"
#include "server/access/testing/token_signer.h"
#include "server/limits.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/session_call.h"
#include "server/rpc/session_registry.h"
#include "server/rpc/unread_answer_limits.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/api_server.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"
#include "tests/support/raw_calls.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Counts = CountingObserver::Counts;
using Stream = grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>;

v1::SessionOperation ReserveAs(std::uint64_t id, std::string_view name, int max_wait_s = 0) {
  v1::SessionOperation operation;
  operation.set_id(id);
  v1::ReserveRequest& request = *operation.mutable_reserve();
  *request.mutable_record_key() = ToProto(KeyNamed(name));
  *request.add_fingerprints() = ToProto(Fingerprint{1, std::string(32, 'a')});
  if (max_wait_s > 0) request.mutable_max_wait()->set_seconds(max_wait_s);
  return operation;
}

v1::SessionOperation CompleteAs(std::uint64_t id, std::string_view name, const std::string& token,
                                const std::string& body = "done") {
  v1::SessionOperation operation;
  operation.set_id(id);
  v1::CompleteRequest& request = *operation.mutable_complete();
  *request.mutable_record_key() = ToProto(KeyNamed(name));
  request.set_reservation_token(token);
  request.mutable_reply()->set_body(body);
  return operation;
}

v1::SessionOperation ReleaseAs(std::uint64_t id, std::string_view name, const std::string& token) {
  v1::SessionOperation operation;
  operation.set_id(id);
  *operation.mutable_release()->mutable_record_key() = ToProto(KeyNamed(name));
  operation.mutable_release()->set_reservation_token(token);
  return operation;
}

v1::SessionOperation ExtendAs(std::uint64_t id, std::string_view name, const std::string& token) {
  v1::SessionOperation operation;
  operation.set_id(id);
  *operation.mutable_extend()->mutable_record_key() = ToProto(KeyNamed(name));
  operation.mutable_extend()->set_reservation_token(token);
  return operation;
}

v1::SessionOperation GetAs(std::uint64_t id, std::string_view name) {
  v1::SessionOperation operation;
  operation.set_id(id);
  *operation.mutable_get()->mutable_record_key() = ToProto(KeyNamed(name));
  operation.mutable_get()->set_view(v1::RECORD_VIEW_FULL);
  return operation;
}

v1::SessionOperation CancelOf(std::uint64_t id) {
  v1::SessionOperation operation;
  operation.set_id(id);
  operation.mutable_cancel();
  return operation;
}

v1::SessionRequest FrameOf(std::vector<v1::SessionOperation> operations) {
  v1::SessionRequest frame;
  for (v1::SessionOperation& operation : operations) {
    *frame.add_operations() = std::move(operation);
  }
  return frame;
}

std::string NameOf(int i) { return "record-" + std::to_string(i); }

absl::Status StatusIn(const v1::SessionError& error) {
  return FromGrpcStatus(
      grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.message(), error.details()));
}

Reason ReasonIn(const v1::SessionError& error) {
  return ReasonOf(StatusIn(error)).value_or(Reason::kDownstreamRefused);
}

// One stream as its caller sees it. Every wait ends after 20 s, with the stream.
class Caller {
 public:
  // `token` is its bearer token, or "".
  explicit Caller(v1::IdempotencyService::Stub& stub, const std::string& token = "") {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub.Session(&context_);
  }
  ~Caller() { context_.TryCancel(); }

  bool Send(std::vector<v1::SessionOperation> operations) {
    return stream_->Write(FrameOf(std::move(operations)));
  }
  bool Read(v1::SessionResponse& frame) { return stream_->Read(&frame); }
  // The limits, without the operations.
  v1::SessionResponse First() {
    v1::SessionResponse frame;
    EXPECT_TRUE(stream_->Read(&frame));
    EXPECT_TRUE(frame.has_limits());
    EXPECT_THAT(frame.answers(), SizeIs(0));
    return frame;
  }
  // Answers by id, once there are so many; fewer if the stream ends.
  std::map<std::uint64_t, v1::SessionAnswer> Answers(std::size_t count) {
    std::map<std::uint64_t, v1::SessionAnswer> answers;
    v1::SessionResponse frame;
    while (answers.size() < count && stream_->Read(&frame)) {
      ++frames_;
      for (const v1::SessionAnswer& answer : frame.answers()) {
        EXPECT_TRUE(answers.emplace(answer.id(), answer).second) << "answered twice";
      }
    }
    EXPECT_EQ(answers.size(), count);
    return answers;
  }
  // The answer to one operation.
  v1::SessionAnswer Ask(const v1::SessionOperation& operation) {
    EXPECT_TRUE(Send({operation}));
    return Answers(1)[operation.id()];
  }
  std::string Token(std::uint64_t id, std::string_view name) {
    return Ask(ReserveAs(id, name)).reserve().reserved().reservation_token();
  }
  void HalfClose() { stream_->WritesDone(); }
  // Once the stream has ended.
  grpc::Status Status() {
    v1::SessionResponse frame;
    while (stream_->Read(&frame)) {
      unexpected_ += frame.answers_size();
    }
    return stream_->Finish();
  }
  void Hangup() { context_.TryCancel(); }

  // Frames that Answers() read.
  int frames() const { return frames_; }
  // Answers that no Answers() call expected.
  int unexpected() const { return unexpected_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  int frames_ = 0;
  int unexpected_ = 0;
};

class SessionTest : public ::testing::TestWithParam<ServerApi> {
 protected:
  void SetUp() override { Serve({}); }

  void Serve(const SessionOptions& session, int workers = 1) {
    StopServing();
    BatcherOptions batching;
    batching.threads = workers;
    batching.clock = &clock_;
    batching.max_bytes = max_bytes_;
    batcher_ = std::make_unique<Batcher>(store_, observer_, batching);
    InFlightWaitersOptions waiting;
    waiting.clock = &clock_;
    waiters_ = std::make_unique<InFlightWaiters>(*batcher_, observer_, waiting);
    IdempotencyServiceOptions options;
    options.clock = &clock_;
    options.session = session;
    if (!access_.is_open()) options.access = &access_;
    service_ = std::make_unique<IdempotencyService>(*batcher_, *waiters_, observer_, options);

    server_ = std::make_unique<ApiServer>(GetParam(), *service_);
    stub_ = v1::IdempotencyService::NewStub(server_->Channel());
    unread_ = v1::IdempotencyService::NewStub(server_->ChannelWithSmallWindows());
  }

  void StopServing() {
    store_.Open();
    if (server_ == nullptr) return;
    waiters_->Close();
    server_.reset();
    batcher_->Close();
    EXPECT_EQ(batcher_->budget().held(), 0u) << "whatever became of the answers";
  }

  void TearDown() override { StopServing(); }

  // The one worker is inside the store, until Open().
  void OccupyWorker() {
    store_.Shut();
    const std::size_t before = store_.calls().size();
    batcher_->Reserve(ReserveNamed("occupies"), Batcher::kNoDeadline,
                      [](const absl::StatusOr<Verdict>&, const ReserveOp&) {});
    ASSERT_TRUE(store_.AwaitCalls(before + 1));
  }

  // Round trips of another session, on the same connection: earlier frames have had time to arrive.
  void AskElsewhere() {
    Caller other(*stub_);
    v1::SessionOperation invalid;
    for (std::size_t i = 0; i < kFramesElsewhere; ++i) {
      invalid.set_id(i);
      EXPECT_TRUE(other.Ask(invalid).has_error());
    }
  }

  // The number of frames that AskElsewhere() sends.
  static constexpr std::size_t kFramesElsewhere = 20;

  // Operations without a kind, each of which is answered with an error.
  static std::vector<v1::SessionOperation> Nothing(std::size_t count) {
    std::vector<v1::SessionOperation> nothing(count);
    for (std::size_t i = 0; i < count; ++i) nothing[i].set_id(i);
    return nothing;
  }
  static constexpr std::size_t kManySessions = 250;
  static constexpr int kAnswers = 40;
  // Each with so many answers, while all together are never more than `most` bytes.
  std::vector<std::unique_ptr<Caller>> CallersThatDoNotRead(v1::IdempotencyService::Stub& stub,
                                                            std::size_t callers, std::size_t most) {
    std::vector<std::unique_ptr<Caller>> others;
    for (std::size_t i = 0; i < callers; ++i) {
      others.push_back(std::make_unique<Caller>(stub));
      others.back()->First();
      EXPECT_TRUE(others.back()->Send(Nothing(kAnswers)));
      EXPECT_TRUE(observer_.Await(&Counts::frames_received, i + 1));
      EXPECT_LE(batcher_->budget().unread_answers(), most) << i;
    }
    return others;
  }
  // While the answers are on their way; false after 20 s.
  bool AwaitHeld(const std::function<bool(std::size_t)>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_so(batcher_->budget().held())) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::size_t max_bytes_ = BatcherOptions().max_bytes;
  ManualClock clock_;
  // Open, unless a test restricts it before Serve().
  AccessControl access_;
  MemoryStore memory_{clock_};
  GatedStore store_{memory_};
  CountingObserver observer_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<InFlightWaiters> waiters_;
  std::unique_ptr<IdempotencyService> service_;
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  // For callers that do not read.
  std::unique_ptr<v1::IdempotencyService::Stub> unread_;
};

// A unary call whose caller does not read its answer before Status(). Without a deadline: the
// service ends it, or the destruction.
class UnreadGet {
 public:
  UnreadGet(v1::IdempotencyService::Stub& stub, std::string_view name) {
    v1::GetRequest request;
    *request.mutable_record_key() = ToProto(KeyNamed(name));
    call_ = stub.PrepareAsyncGet(&context_, request, &queue_);
    call_->StartCall();
    call_->ReadInitialMetadata(nullptr);
  }
  // The answer is on its way.
  bool AwaitHeaders() { return Next(); }
  grpc::Status Status() {
    v1::GetResponse response;
    grpc::Status status;
    call_->Finish(&response, &status, nullptr);
    EXPECT_TRUE(Next());
    return status;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::GetResponse>> call_;
};

// Sessions without gRPC: their first write does not end.
class UnboundSessionTest : public ::testing::Test {
 protected:
  ~UnboundSessionTest() override {
    for (SessionCall* const session : sessions_) {
      session->OnWriteDone(false);
      session->OnReadDone(false);
      session->OnDone();
    }
    waiters_.Close();
    batcher_.Close();
  }

  // `cancel` is gRPC's.
  SessionCall& Begin(std::function<void()> cancel) {
    // It deletes itself in OnDone().
    sessions_.push_back(std::make_unique<SessionCall>(operations_, registry_, unread_answers_,
                                                      SessionOptions(), std::move(cancel))
                            .release());
    sessions_.back()->Start();
    return *sessions_.back();
  }

  static BatcherOptions Batching(const Clock& clock) {
    BatcherOptions options;
    options.clock = &clock;
    return options;
  }
  static InFlightWaitersOptions Waiting(const Clock& clock) {
    InFlightWaitersOptions options;
    options.clock = &clock;
    return options;
  }
  static OperationsOptions Operating(const Clock& clock) {
    OperationsOptions options;
    options.clock = &clock;
    return options;
  }

  ManualClock clock_;
  MemoryStore store_{clock_};
  CountingObserver observer_;
  Batcher batcher_{store_, observer_, Batching(clock_)};
  InFlightWaiters waiters_{batcher_, observer_, Waiting(clock_)};
  Operations operations_{batcher_, waiters_, observer_, Operating(clock_)};
  SessionRegistry registry_{observer_};
  UnreadAnswerLimits unread_answers_{registry_, batcher_.budget()};
  std::vector<SessionCall*> sessions_;
};

TEST(SessionOptionsTest, TheDefaultsAreThoseThatAreDocumented) {
  const SessionOptions options;
  EXPECT_EQ(options.max_in_flight, limits::kMaxSessionInFlight);
  EXPECT_EQ(options.max_answer_frame_bytes, limits::kMaxAnswerFrameBytes);
  EXPECT_EQ(options.max_unanswered, limits::kMaxSessionUnanswered);
  EXPECT_EQ(options.max_unanswered_bytes, limits::kMaxSessionUnansweredBytes);
  EXPECT_EQ(options.max_unwritten_bytes, limits::kMaxSessionUnwrittenBytes);
  EXPECT_EQ(options.max_held_bytes, limits::kMaxSessionHeldBytes);
  EXPECT_EQ(options.max_age, absl::InfiniteDuration());
  EXPECT_EQ(options.max_frame_operations, limits::kMaxSessionUnanswered);
  EXPECT_EQ(options.max_frame_parsed_bytes, 4 * limits::kMaxMessageBytes);
}

TEST_P(SessionTest, TheFirstFrameHasTheLimits) {
  Caller caller(*stub_);
  const v1::SessionLimits limits = caller.First().limits();
  EXPECT_EQ(limits.max_in_flight(), limits::kMaxSessionInFlight);
  EXPECT_EQ(limits.max_frame_bytes(), limits::kMaxMessageBytes);
  EXPECT_EQ(limits.max_frame_operations(), limits::kMaxSessionUnanswered);
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 1));
  EXPECT_TRUE(observer_.Await(&Counts::frames_sent, 1));
  caller.HalfClose();
  EXPECT_TRUE(caller.Status().ok());
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 0));
}

TEST_P(SessionTest, DoesEveryOperation) {
  Caller caller(*stub_);
  const v1::SessionAnswer reserved = caller.Ask(ReserveAs(1, "one"));
  EXPECT_FALSE(reserved.has_error());
  EXPECT_EQ(reserved.reserve().record_id(), IdNamed("one").ToString());
  const std::string token = reserved.reserve().reserved().reservation_token();
  EXPECT_EQ(caller.Ask(ExtendAs(2, "one", token)).extend().lease_remaining().seconds(), 30);
  EXPECT_TRUE(caller.Ask(CompleteAs(3, "one", token)).complete().has_completed_at());
  EXPECT_EQ(caller.Ask(ReserveAs(4, "one")).reserve().replay().reply().body(), "done");
  EXPECT_EQ(caller.Ask(GetAs(5, "one")).get().record().reply().body(), "done");
  const std::string second = caller.Token(6, "two");
  EXPECT_TRUE(caller.Ask(ReleaseAs(7, "two", second)).has_release());
  EXPECT_EQ(caller.Ask(ReserveAs(7, "two")).reserve().reserved().attempt(), 2u)
      << "an id is free again once it was answered";
  EXPECT_EQ(observer_.counts().rpcs, 8u);
  EXPECT_EQ(observer_.counts().verdicts, 4u);
}

TEST_P(SessionTest, AFrameIsOneBatchAndIsAnsweredInOne) {
  Caller caller(*stub_);
  caller.First();
  std::vector<v1::SessionOperation> operations;
  for (int i = 0; i < 100; ++i) operations.push_back(ReserveAs(i, NameOf(i)));
  ASSERT_TRUE(caller.Send(std::move(operations)));

  for (const auto& [id, answer] : caller.Answers(100)) {
    EXPECT_TRUE(answer.reserve().has_reserved()) << id;
  }
  EXPECT_EQ(caller.frames(), 1);
  const auto calls = store_.calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_THAT(calls[0].ids, SizeIs(100));
}

TEST_P(SessionTest, AFailureIsWhatTheMethodWouldHaveAnswered) {
  Caller caller(*stub_);
  const v1::SessionError lost = caller.Ask(CompleteAs(1, "one", Uuid::Random().ToString())).error();
  EXPECT_EQ(lost.code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(lost), Reason::kReservationLost);
  EXPECT_NE(lost.message(), "");
  EXPECT_EQ(observer_.counts().failed_rpcs, 1u);
}

TEST_P(SessionTest, AnOperationThatIsNotValidFailsAlone) {
  Caller caller(*stub_);
  v1::SessionOperation without_key = ReserveAs(2, "two");
  without_key.mutable_reserve()->clear_record_key();
  v1::SessionOperation nothing;
  nothing.set_id(3);
  v1::SessionOperation impatient = ReserveAs(4, "four");
  impatient.mutable_timeout()->set_seconds(-1);
  ASSERT_TRUE(
      caller.Send({ReserveAs(1, "one"), without_key, nothing, impatient, ReserveAs(5, "five")}));

  auto answers = caller.Answers(5);
  EXPECT_TRUE(answers[1].reserve().has_reserved());
  for (const int id : {2, 3, 4}) {
    EXPECT_EQ(answers[id].error().code(), grpc::StatusCode::INVALID_ARGUMENT) << id;
    EXPECT_EQ(ReasonIn(answers[id].error()), Reason::kRequestInvalid) << id;
  }
  EXPECT_TRUE(answers[5].reserve().has_reserved());
}

// Whichever of the two comes first. The answer of the one would otherwise end the other, which the
// store still has.
TEST_P(SessionTest, AnIdOfAnUnknownOperationIsInUse) {
  v1::SessionOperation unknown;
  unknown.set_id(1);
  OccupyWorker();
  for (const auto& frame : {std::vector<v1::SessionOperation>{unknown, ReserveAs(1, "one")},
                            std::vector<v1::SessionOperation>{ReserveAs(1, "one"), unknown},
                            std::vector<v1::SessionOperation>{unknown, unknown}}) {
    Caller caller(*stub_);
    ASSERT_TRUE(caller.Send(frame));
    const grpc::Status status = caller.Status();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
  }
  store_.Open();
  EXPECT_EQ(memory_.Get({GetNamed("one")})[0].status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SessionTest, AnIdInUseEndsTheStreamAndNothingOfItsFrameIsDone) {
  Caller caller(*stub_);
  OccupyWorker();
  ASSERT_TRUE(caller.Send({ReserveAs(1, "one")}));
  ASSERT_TRUE(caller.Send({ReserveAs(2, "two"), ReserveAs(1, "other")}));
  const grpc::Status status = caller.Status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
  EXPECT_EQ(caller.unexpected(), 0);
  store_.Open();
  // The earlier request was queued, and its caller has left.
  EXPECT_TRUE(observer_.Await(&Counts::rpcs, 1));
  for (const char* const name : {"one", "two", "other"}) {
    EXPECT_EQ(memory_.Get({GetNamed(name)})[0].status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_P(SessionTest, AnEmptyFrameEndsTheStream) {
  Caller caller(*stub_);
  ASSERT_TRUE(caller.Send({}));
  const grpc::Status status = caller.Status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
}

TEST_P(SessionTest, AFrameThatCannotBeReadEndsTheStreamWithAReason) {
  const v1::SessionRequest frame = FrameOf({ReserveAs(1, "one")});
  grpc::ClientContext context;
  const grpc::Status status = testing::StreamRaw(server_->InProcessChannel(), context,
                                                 "/idempotency.v1.IdempotencyService/Session",
                                                 {frame.SerializeAsString() + "\x0f"});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
}

// With any other operation on the stream: neither a caller that waits for a running attempt nor an
// operation without the store's answer keeps it open.
TEST_P(SessionTest, AFrameThatCannotBeReadEndsTheStreamAtOnceWaitersIncluded) {
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  ASSERT_TRUE(caller.Send({ReserveAs(2, "one", /*max_wait_s=*/60)}));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  OccupyWorker();
  ASSERT_TRUE(caller.Send({CompleteAs(3, "one", token)}));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 1));
  v1::SessionOperation unreadable = ReserveAs(4, "four");
  (*unreadable.mutable_reserve()->mutable_labels())["trace"] = "\xff";
  ASSERT_TRUE(caller.Send({ReserveAs(5, "five"), unreadable}));

  const grpc::Status status = caller.Status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const absl::Status end = FromGrpcStatus(status);
  EXPECT_EQ(ReasonOf(end), Reason::kRequestInvalid);
  EXPECT_EQ(DetailsOf(end).metadata[std::string(kFrameDetail)], "4");
  EXPECT_EQ(caller.unexpected(), 0) << "who waited is answered on the caller's next stream";
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 0));
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 0)) << "gRPC is done with it";
  store_.Open();
  Caller next(*stub_);
  EXPECT_TRUE(next.Ask(CompleteAs(1, "one", token)).has_complete()) << "again, or for good";
  EXPECT_EQ(next.Ask(ReserveAs(2, "one")).reserve().replay().reply().body(), "done");
  EXPECT_TRUE(next.Ask(ReserveAs(5, "five")).reserve().has_reserved());
}

TEST_P(SessionTest, StreamsThatEndWithTheirOperationsUnderWayLeaveNothingBehind) {
  for (std::size_t round = 0; round < 20; ++round) {
    OccupyWorker();
    {
      Caller caller(*stub_);
      ASSERT_TRUE(caller.Send({ReserveAs(1, NameOf(static_cast<int>(round))),
                               ReserveAs(2, NameOf(static_cast<int>(round)), 60)}));
      ASSERT_TRUE(caller.Send({}));
      EXPECT_EQ(caller.Status().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
    store_.Open();
    ASSERT_TRUE(observer_.Await(&Counts::rpcs, 2 * (round + 1)));
  }
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 0));
  Caller caller(*stub_);
  EXPECT_TRUE(caller.Ask(ReserveAs(1, "after")).reserve().has_reserved());
}

TEST_P(SessionTest, AFrameOfTooManyOperationsEndsTheStreamBeforeAnyIsBegun) {
  SessionOptions options;
  options.max_frame_operations = 3;
  Serve(options);
  {
    Caller caller(*stub_);
    EXPECT_EQ(caller.First().limits().max_frame_operations(), 3u);
    ASSERT_TRUE(caller.Send({ReserveAs(1, "one"), ReserveAs(2, "two"), ReserveAs(3, "three")}));
    EXPECT_THAT(caller.Answers(3), SizeIs(3));
    ASSERT_TRUE(
        caller.Send({ReserveAs(4, "four"), CancelOf(4), ReserveAs(5, "five"), CancelOf(5)}));
    const grpc::Status status = caller.Status();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const ErrorDetails details = DetailsOf(FromGrpcStatus(status));
    ASSERT_THAT(details.violations, SizeIs(1));
    EXPECT_EQ(details.violations[0].field, "operations");
    EXPECT_EQ(caller.unexpected(), 0);
  }
  EXPECT_FALSE(memory_.Get({GetNamed("four")})[0].ok());
}

TEST_P(SessionTest, AFrameOfTooManyFieldsEndsTheStream) {
  SessionOptions options;
  options.max_frame_parsed_bytes = 64 * 1024;
  Serve(options);
  Caller caller(*stub_);
  v1::SessionOperation wide = CompleteAs(1, "one", Uuid::Random().ToString());
  for (int i = 0; i < 10'000; ++i) wide.mutable_complete()->mutable_reply()->add_stream();
  ASSERT_TRUE(caller.Send({wide}));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(caller.Status())), Reason::kRequestInvalid);
}

// A caller that sends only invalid requests, and does not read the answers.
TEST_P(SessionTest, UnreadErrorsAreBounded) {
  SessionOptions options;
  options.max_unwritten_bytes = 64 * 1024;
  Serve(options);
  Caller caller(*stub_);
  caller.First();
  std::vector<v1::SessionOperation> nothing(1000);
  for (std::size_t i = 0; i < nothing.size(); ++i) nothing[i].set_id(i);
  std::thread sender([&] {
    while (caller.Send(nothing)) {
    }
  });
  // The part that fits into HTTP/2's window is written; once the window is full, the rest stays
  // here, and counts as bytes that this service holds.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (batcher_->budget().held() < options.max_unwritten_bytes &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_GE(batcher_->budget().held(), options.max_unwritten_bytes);
  std::size_t read = 0;
  std::size_t before = 0;
  do {
    before = read;
    AskElsewhere();
    read = observer_.counts().frames_received;
    ASSERT_LT(read, 2000u) << "frames of " << nothing.size() << " are read and read";
  } while (read - before > kFramesElsewhere);
  caller.Hangup();
  sender.join();
}

// Their callers need no credentials: what they send is refused before those are examined.
TEST_P(SessionTest, UnreadErrorsOfAllSessionsAreBounded) {
  max_bytes_ = 4 * 1024 * 1024;
  Serve({});
  const Uuid token = std::get<Reserved>(*memory_.Reserve({ReserveNamed("one")})[0]).token;
  constexpr std::size_t kSessions = 24;
  // A connection each, since what one does not read fills its connection's window.
  std::vector<std::unique_ptr<v1::IdempotencyService::Stub>> stubs;
  std::vector<std::unique_ptr<Caller>> others;
  for (std::size_t i = 0; i < kSessions; ++i) {
    stubs.push_back(v1::IdempotencyService::NewStub(server_->ChannelWithSmallWindows()));
    others.push_back(std::make_unique<Caller>(*stubs.back()));
    others.back()->First();
    ASSERT_TRUE(others.back()->Send(Nothing(1000)));
    ASSERT_TRUE(observer_.Await(&Counts::frames_received, i + 1));
    EXPECT_LE(batcher_->budget().held(), max_bytes_ / 2);
  }
  Caller honest(*stub_);
  honest.First();
  EXPECT_TRUE(honest.Ask(ExtendAs(2, "one", token.ToString())).has_extend());
  EXPECT_TRUE(honest.Ask(CompleteAs(3, "one", token.ToString())).has_complete());
  EXPECT_TRUE(honest.Ask(ReserveAs(4, "two")).has_reserve());
}

// Each has less than a session may keep of many answers, so that only their number matters.
TEST_P(SessionTest, UnreadErrorsOfManySessionsLeaveRoomForNewWork) {
  max_bytes_ = 2 * 1024 * 1024;
  Serve({});
  const std::size_t pool = batcher_->budget().unread_answers_pool();
  const auto closed = v1::IdempotencyService::NewStub(server_->ChannelWithClosedWindows());
  const std::vector<std::unique_ptr<Caller>> others =
      CallersThatDoNotRead(*closed, kManySessions, pool / 2 + pool / 8);
  Caller honest(*stub_);
  honest.First();
  EXPECT_TRUE(honest.Ask(ReserveAs(1, "one")).has_reserve());
  EXPECT_EQ(others.front()->Status().error_code(), grpc::StatusCode::CANCELLED);
  others.back()->HalfClose();
  EXPECT_TRUE(others.back()->Status().ok()) << "it is not among the oldest";
  EXPECT_EQ(others.back()->unexpected(), kAnswers);
}

// Each has a record of some 4 KB, which is no reply.
TEST_P(SessionTest, UnreadAnswersOfUnaryCallsLeaveRoomForNewWork) {
  max_bytes_ = 2 * 1024 * 1024;
  Serve({});
  ReserveOp op = ReserveNamed("labelled");
  for (std::size_t i = 0; i < limits::kMaxLabels; ++i) {
    op.labels["label-" + std::to_string(i)] = std::string(limits::kMaxLabelValueBytes, 'l');
  }
  memory_.Reserve({op});
  const std::size_t pool = batcher_->budget().unread_answers_pool();
  const auto closed = v1::IdempotencyService::NewStub(server_->ChannelWithClosedWindows());
  std::vector<std::unique_ptr<UnreadGet>> others;
  for (int i = 0; i < 500; ++i) {
    others.push_back(std::make_unique<UnreadGet>(*closed, "labelled"));
    ASSERT_TRUE(others.back()->AwaitHeaders());
    // Those of an ended call are returned on another thread.
    ASSERT_TRUE(AwaitHeld([&](std::size_t) {
      return batcher_->budget().unread_answers() <= pool / 2 + pool / 8;
    })) << i;
  }
  EXPECT_GT(batcher_->budget().unread_answers(), pool / 8);
  Caller honest(*stub_);
  honest.First();
  EXPECT_TRUE(honest.Ask(ReserveAs(1, "one")).has_reserve());
  EXPECT_EQ(others.front()->Status().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(others.back()->Status().ok()) << "it is not among the oldest";
  others.clear();
}

TEST_P(SessionTest, AUnaryCallWhoseCallerDoesNotReadEnds) {
  memory_.Reserve({ReserveNamed("one")});
  const auto closed = v1::IdempotencyService::NewStub(server_->ChannelWithClosedWindows());
  UnreadGet unread(*closed, "one");
  ASSERT_TRUE(unread.AwaitHeaders());
  ASSERT_TRUE(AwaitHeld([](std::size_t held) { return held > 0; }));
  clock_.Advance(limits::kPeerTimeout - absl::Microseconds(1));
  service_->CheckCalls();
  EXPECT_GT(batcher_->budget().held(), 0u);
  clock_.Advance(absl::Microseconds(1));
  service_->CheckCalls();
  EXPECT_TRUE(AwaitHeld([](std::size_t held) { return held == 0; }));
  EXPECT_EQ(unread.Status().error_code(), grpc::StatusCode::CANCELLED);
}

// Their callers have no address, as those of a Unix socket.
TEST_P(SessionTest, UnreadErrorsWithoutAHostHaveTheWholePool) {
  max_bytes_ = 2 * 1024 * 1024;
  Serve({});
  const std::size_t pool = batcher_->budget().unread_answers_pool();
  const auto in_process = v1::IdempotencyService::NewStub(server_->InProcessChannel());
  const std::vector<std::unique_ptr<Caller>> others =
      CallersThatDoNotRead(*in_process, kManySessions, pool + pool / 8);
  EXPECT_GT(batcher_->budget().unread_answers(), pool / 4);
  Caller honest(*stub_);
  honest.First();
  EXPECT_TRUE(honest.Ask(ReserveAs(1, "one")).has_reserve());
}

TEST_P(SessionTest, HoweverManyAreUnreadACallerHasTimeToRead) {
  max_bytes_ = 4 * 1024 * 1024;
  Serve({});
  const MemoryBudget& budget = batcher_->budget();
  const std::size_t pool = budget.unread_answers_pool();
  const auto in_process = v1::IdempotencyService::NewStub(server_->InProcessChannel());
  constexpr std::size_t kOthers = 50;
  const std::vector<std::unique_ptr<Caller>> others =
      CallersThatDoNotRead(*in_process, kOthers, pool);
  ASSERT_TRUE(AwaitHeld([&](std::size_t) { return budget.UnreadAnswersAreMany(); }));
  const std::size_t before = budget.unread_answers();
  Caller caller(*in_process);
  caller.First();
  ASSERT_TRUE(observer_.AwaitAtLeast(&Counts::frames_sent, kOthers + 1)) << "the limits";
  ASSERT_TRUE(caller.Send(Nothing(400)));
  ASSERT_TRUE(AwaitHeld([&](std::size_t) {
    return budget.unread_answers() > before + budget.UnreadAnswersAllowance();
  }));
  // Waits for the lock under which the write is begun.
  service_->CheckCalls();
  clock_.Advance(limits::kSessionReadTime - absl::Microseconds(1));
  service_->CheckCalls();
  EXPECT_EQ(observer_.counts().sessions, kOthers + 1);
  clock_.Advance(absl::Microseconds(1));
  service_->CheckCalls();
  EXPECT_TRUE(AwaitHeld([&](std::size_t) { return !budget.UnreadAnswersAreMany(); }))
      << "the oldest are ended, too";
  EXPECT_GT(budget.unread_answers(), pool / 4) << "the others are not";
}

TEST_P(SessionTest, ASessionWhoseCallerDoesNotReadEnds) {
  Caller idle(*stub_);
  idle.First();
  Caller other(*unread_);
  other.First();
  ASSERT_TRUE(observer_.Await(&Counts::frames_sent, 2)) << "the limits";
  ASSERT_TRUE(other.Send(Nothing(2000)));
  ASSERT_TRUE(observer_.Await(&Counts::frames_received, 1));
  ASSERT_TRUE(AwaitHeld([](std::size_t held) { return held > 0; }));
  // Waits for the lock under which the write is begun.
  service_->CheckCalls();
  clock_.Advance(limits::kPeerTimeout - absl::Microseconds(1));
  service_->CheckCalls();
  EXPECT_EQ(observer_.counts().sessions, 2u);
  clock_.Advance(absl::Microseconds(1));
  service_->CheckCalls();
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 1));
  EXPECT_TRUE(AwaitHeld([](std::size_t held) { return held == 0; }));
  EXPECT_TRUE(idle.Ask(ReserveAs(1, "one")).has_reserve());
  EXPECT_EQ(other.Status().error_code(), grpc::StatusCode::CANCELLED) << "once it reads again";
}

// Ending one takes long, and the network's only thread waits for the registry.
TEST_F(UnboundSessionTest, OthersBeginAndEndWhileStalledOnesAreEnded) {
  std::vector<std::future<void>> drains;
  Begin([&] {
    drains.push_back(std::async(std::launch::async, [this] { registry_.Drain(); }));
    EXPECT_EQ(drains.back().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  });
  clock_.Advance(limits::kPeerTimeout);
  unread_answers_.EndStalled(clock_.Monotonic());
  EXPECT_THAT(drains, SizeIs(1));
}

// A visit may verify a signature, or write.
TEST_F(UnboundSessionTest, OthersBeginAndEndDuringAVisit) {
  SessionCall& visited = Begin(nullptr);
  SessionCall& other = Begin(nullptr);
  int visits = 0;
  registry_.ForEach([&](std::uint64_t /*place*/, SessionCall& session) {
    ++visits;
    if (&session != &visited) return false;
    auto others = std::async(std::launch::async, [&] {
      registry_.Remove(&other);
      registry_.Add(&other);
    });
    EXPECT_EQ(others.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    return false;
  });
  EXPECT_EQ(visits, 1) << "those that begin meanwhile are not visited";
}

TEST_F(UnboundSessionTest, AllStalledSessionsAreEnded) {
  constexpr int kSessions = 100;
  int ended = 0;
  for (int i = 0; i < kSessions; ++i) Begin([&] { ++ended; });
  clock_.Advance(limits::kPeerTimeout);
  unread_answers_.EndStalled(clock_.Monotonic());
  EXPECT_EQ(ended, kSessions);
}

TEST_P(SessionTest, ALargerFrameMayTakeLonger) {
  SessionOptions options;
  options.max_answer_frame_bytes = 1024 * 1024;
  Serve(options);
  const std::string body(3 * options.max_answer_frame_bytes, 'b');
  const Uuid token = std::get<Reserved>(*memory_.Reserve({ReserveNamed("one")})[0]).token;
  ASSERT_TRUE(memory_.Complete({CompleteNamed("one", token, body)})[0].ok());
  Caller caller(*unread_);
  caller.First();
  ASSERT_TRUE(observer_.Await(&Counts::frames_sent, 1)) << "the limits";
  ASSERT_TRUE(caller.Send({ReserveAs(1, "one")}));
  ASSERT_TRUE(AwaitHeld([&](std::size_t held) { return held >= body.size(); }));
  ASSERT_TRUE(observer_.Await(&Counts::rpcs, 1));
  clock_.Advance(3 * limits::kPeerTimeout);
  service_->CheckCalls();
  EXPECT_EQ(caller.Answers(1)[1].reserve().replay().reply().body(), body);
}

TEST_P(SessionTest, AFrameOverTheMessageLimitEndsTheStream) {
  Caller caller(*stub_);
  caller.First();
  caller.Send({CompleteAs(1, "one", "token", std::string(limits::kMaxMessageBytes + 1, 'b'))});
  EXPECT_EQ(caller.Status().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_P(SessionTest, AnOperationWhoseTimeoutPassesInTheQueueIsNotDone) {
  Caller caller(*stub_);
  OccupyWorker();
  v1::SessionOperation impatient = ReserveAs(1, "one");
  impatient.mutable_timeout()->set_seconds(5);
  v1::SessionOperation patient = ReserveAs(2, "two");
  patient.mutable_timeout()->set_seconds(50);
  ASSERT_TRUE(caller.Send({impatient, patient, ReserveAs(3, "three")}));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 3));
  clock_.Advance(absl::Seconds(5));
  store_.Open();
  auto answers = caller.Answers(3);
  EXPECT_EQ(answers[1].error().code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(answers[2].reserve().has_reserved());
  EXPECT_TRUE(answers[3].reserve().has_reserved());
  EXPECT_FALSE(memory_.Get({GetNamed("one")})[0].ok());
}

TEST_P(SessionTest, CompletionsOvertakeQueuedReservations) {
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  OccupyWorker();
  ASSERT_TRUE(caller.Send({ReserveAs(2, "two"), GetAs(3, "one"), CompleteAs(4, "one", token)}));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 3));
  store_.Open();
  EXPECT_EQ(caller.Answers(3)[3].get().record().state(), v1::RECORD_STATE_COMPLETED);
  std::vector<OperationKind> order;
  for (const GatedStore::Call& call : store_.calls()) order.push_back(call.kind);
  EXPECT_THAT(
      order, ElementsAre(OperationKind::kReserve, OperationKind::kReserve, OperationKind::kComplete,
                         OperationKind::kReserve, OperationKind::kGet));
}

TEST_P(SessionTest, ReservationsOverTheLimitAreRefusedAndCompletionsAreNot) {
  SessionOptions options;
  options.max_in_flight = 2;
  Serve(options);
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  OccupyWorker();
  ASSERT_TRUE(caller.Send(
      {ReserveAs(2, "two"), GetAs(3, "one"), ReserveAs(4, "four"), CompleteAs(5, "one", token)}));
  const v1::SessionError refused = caller.Answers(1)[4].error();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(refused), Reason::kOverloaded);
  EXPECT_EQ(DetailsOf(StatusIn(refused)).retry_delay, absl::Milliseconds(500));
  EXPECT_EQ(observer_.counts().shed_of_callers, 1u);
  EXPECT_EQ(observer_.counts().shed, 0u);
  store_.Open();
  auto answers = caller.Answers(3);
  EXPECT_TRUE(answers[2].reserve().has_reserved());
  EXPECT_TRUE(answers[5].has_complete());
  EXPECT_TRUE(caller.Ask(ReserveAs(6, "six")).reserve().has_reserved()) << "there is room again";
}

TEST_P(SessionTest, IsNotReadWhileTooMuchIsUnanswered) {
  SessionOptions options;
  options.max_unanswered = 4;
  Serve(options);
  Caller caller(*stub_);
  OccupyWorker();
  std::vector<v1::SessionOperation> four;
  for (int i = 0; i < 4; ++i) four.push_back(ReserveAs(i, NameOf(i)));
  ASSERT_TRUE(caller.Send(four));
  ASSERT_TRUE(observer_.Await(&Counts::frames_received, 1));
  ASSERT_TRUE(caller.Send({ReserveAs(4, NameOf(4))}));
  AskElsewhere();
  EXPECT_EQ(observer_.counts().queued, 4u) << "the second frame lies in the transport";
  store_.Open();
  EXPECT_THAT(caller.Answers(5), SizeIs(5));
}

TEST_P(SessionTest, IsNotReadWhileWhatIsUnansweredWeighsTooMuch) {
  SessionOptions options;
  options.max_unanswered_bytes = 64 * 1024;
  Serve(options);
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  OccupyWorker();
  ASSERT_TRUE(caller.Send({CompleteAs(2, "one", token, std::string(64 * 1024, 'b'))}));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 1));
  ASSERT_TRUE(caller.Send({ReserveAs(3, "three")}));
  AskElsewhere();
  EXPECT_EQ(observer_.counts().queued, 1u);
  store_.Open();
  EXPECT_THAT(caller.Answers(2), SizeIs(2));
}

// At the bound nothing more is read, one byte below it the next frame is.
TEST_P(SessionTest, WhatIsUnansweredMayWeighLessThanTheBound) {
  const auto first = ReserveAs(1, "one");
  const std::size_t bytes = FrameOf({first}).ByteSizeLong();
  for (const std::size_t bound : {bytes, bytes + 1}) {
    SessionOptions options;
    options.max_unanswered_bytes = bound;
    Serve(options);
    Caller caller(*stub_);
    caller.First();
    OccupyWorker();
    ASSERT_TRUE(caller.Send({first}));
    ASSERT_TRUE(observer_.Await(&Counts::queued, 1));
    ASSERT_TRUE(caller.Send({ReserveAs(2, "two")}));
    if (bound > bytes) {
      EXPECT_TRUE(observer_.Await(&Counts::queued, 2));
    } else {
      // Another session has its own bound.
      AskElsewhere();
      EXPECT_EQ(observer_.counts().queued, 1u);
    }
    store_.Open();
    EXPECT_THAT(caller.Answers(2), SizeIs(2));
  }
}

TEST_P(SessionTest, OperationsOfOneFrameWeighNoMoreThanTheFrame) {
  const auto one = ReserveAs(1, "one");
  const auto two = ReserveAs(2, "two");
  SessionOptions options;
  options.max_unanswered_bytes = FrameOf({one, two}).ByteSizeLong() + 1;
  Serve(options);
  Caller caller(*stub_);
  caller.First();
  OccupyWorker();
  ASSERT_TRUE(caller.Send({one, two}));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 2));
  ASSERT_TRUE(caller.Send({ReserveAs(3, "three")}));
  EXPECT_TRUE(observer_.Await(&Counts::queued, 3));
  store_.Open();
  EXPECT_THAT(caller.Answers(3), SizeIs(3));
}

// A grant is always sent, or the unread answers would never become fewer.
TEST_P(SessionTest, OnlyALargeAnswerIsRefusedForWhatIsNotRead) {
  SessionOptions options;
  options.max_held_bytes = 1;
  Serve(options);
  Caller caller(*stub_);
  caller.First();
  const auto complete = [this](const std::string& name, std::size_t body) {
    const Uuid token = std::get<Reserved>(*memory_.Reserve({ReserveNamed(name)})[0]).token;
    ASSERT_TRUE(memory_.Complete({CompleteNamed(name, token, std::string(body, 'b'))})[0].ok());
  };
  constexpr std::size_t kBody = 60'000;
  constexpr std::size_t kLargest = 64 * 1024;
  complete("probe", kBody);
  v1::SessionAnswer probe = caller.Ask(ReserveAs(1, "probe"));
  ASSERT_TRUE(probe.reserve().has_replay());
  probe.clear_id();
  const std::size_t rest = probe.ByteSizeLong() - kBody;
  complete("fits!", kLargest - rest);
  complete("large", kLargest - rest + 1);
  EXPECT_TRUE(caller.Ask(ReserveAs(2, "fits!")).reserve().has_replay());
  const v1::SessionError refused = caller.Ask(ReserveAs(3, "large")).error();
  EXPECT_EQ(ReasonIn(refused), Reason::kOverloaded);
  EXPECT_EQ(DetailsOf(StatusIn(refused)).retry_delay, absl::Milliseconds(500));
}

TEST_P(SessionTest, SentAnswersHoldNoMemory) {
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  ASSERT_TRUE(caller.Ask(CompleteAs(2, "one", token, std::string(100'000, 'b'))).has_complete());
  EXPECT_TRUE(caller.Ask(ReserveAs(3, "one")).reserve().has_replay());
  v1::SessionOperation invalid;
  EXPECT_TRUE(caller.Ask(invalid).has_error());
  // The stream is still open; gRPC reports its last write at a time of its own.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (batcher_->budget().held() != 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(batcher_->budget().held(), 0u);
  EXPECT_EQ(observer_.counts().sessions, 1u);
}

TEST_P(SessionTest, UnreadRepliesAreBounded) {
  const std::string body(1024 * 1024, 'b');
  for (int i = 0; i < 64; ++i) {
    const Uuid token = std::get<Reserved>(*memory_.Reserve({ReserveNamed(NameOf(i))})[0]).token;
    ASSERT_TRUE(memory_.Complete({CompleteNamed(NameOf(i), token, body)})[0].ok());
  }
  SessionOptions options;
  options.max_held_bytes = 8 * body.size();
  Serve(options);
  Caller caller(*stub_);
  std::vector<v1::SessionOperation> operations;
  for (int i = 0; i < 64; ++i) operations.push_back(ReserveAs(i, NameOf(i)));
  ASSERT_TRUE(caller.Send(std::move(operations)));
  ASSERT_TRUE(observer_.Await(&Counts::rpcs, 64));
  EXPECT_GE(batcher_->budget().held(), options.max_held_bytes / 2) << "what is not read counts";
  int replayed = 0;
  for (const auto& [id, answer] : caller.Answers(64)) {
    if (answer.reserve().has_replay()) {
      ++replayed;
      EXPECT_EQ(answer.reserve().replay().reply().body(), body);
    } else {
      EXPECT_EQ(ReasonIn(answer.error()), Reason::kOverloaded);
    }
  }
  EXPECT_GE(replayed, 7);
  EXPECT_LE(replayed, 16) << "what is held, and what had gone to the transport";
  EXPECT_TRUE(caller.Ask(ReserveAs(0, NameOf(63))).reserve().has_replay());
}

TEST_P(SessionTest, ALargeAnswerTravelsAlone) {
  SessionOptions options;
  options.max_answer_frame_bytes = 4096;
  Serve(options);
  Caller caller(*stub_);
  caller.First();
  const std::string token = caller.Token(1, "one");
  const std::string body(limits::kMaxReplyBytes - 1024, 'b');
  ASSERT_TRUE(caller.Ask(CompleteAs(2, "one", token, body)).has_complete());
  std::vector<v1::SessionOperation> operations;
  for (int i = 0; i < 100; ++i) operations.push_back(ReserveAs(100 + i, NameOf(i)));
  operations.push_back(ReserveAs(3, "one"));
  ASSERT_TRUE(caller.Send(std::move(operations)));
  std::size_t answers = 0;
  v1::SessionResponse frame;
  while (answers < 101 && caller.Read(frame)) {
    answers += frame.answers_size();
    if (frame.ByteSizeLong() <= options.max_answer_frame_bytes) continue;
    ASSERT_THAT(frame.answers(), SizeIs(1));
    EXPECT_EQ(frame.answers(0).reserve().replay().reply().body(), body);
  }
  EXPECT_EQ(answers, 101u);
}

TEST_P(SessionTest, AReservationWaitsAndIsCancelledByItsId) {
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  ASSERT_TRUE(caller.Send(
      {ReserveAs(2, "one", /*max_wait_s=*/30), ReserveAs(3, "one", /*max_wait_s=*/30)}));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 2));
  ASSERT_TRUE(caller.Send({CancelOf(2), CancelOf(77)}));
  EXPECT_EQ(caller.Answers(1)[2].error().code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(caller.Send({CompleteAs(4, "one", token)}));
  EXPECT_EQ(caller.Answers(2)[3].reserve().replay().reply().body(), "done");
}

TEST_P(SessionTest, ACancelledOperationAtTheStoreIsAnswered) {
  Caller caller(*stub_);
  store_.Shut();
  ASSERT_TRUE(caller.Send({ReserveAs(1, "one", /*max_wait_s=*/30)}));
  ASSERT_TRUE(store_.AwaitCalls(1));
  ASSERT_TRUE(caller.Send({CancelOf(1)}));
  ASSERT_TRUE(observer_.Await(&Counts::frames_received, 2));
  store_.Open();
  EXPECT_TRUE(caller.Answers(1)[1].reserve().has_reserved());
}

TEST_P(SessionTest, AHangupCancelsThoseWhoWaitAndLetsTheOthersRun) {
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  ASSERT_TRUE(caller.Send({ReserveAs(2, "one", /*max_wait_s=*/30)}));
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  OccupyWorker();
  ASSERT_TRUE(caller.Send({CompleteAs(3, "two", token), ReleaseAs(4, "one", token)}));
  ASSERT_TRUE(observer_.Await(&Counts::queued, 2));
  caller.Hangup();
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 0));
  EXPECT_EQ(observer_.counts().sessions, 1u) << "two operations are on their way";
  store_.Open();
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 0));
  EXPECT_EQ(memory_.Get({GetNamed("one")})[0]->state, RecordState::kReleased)
      << "released, and not granted to the one that waited";
}

TEST_P(SessionTest, AHalfCloseIsAnsweredInFullBeforeTheStreamEnds) {
  Caller caller(*stub_);
  OccupyWorker();
  ASSERT_TRUE(caller.Send({ReserveAs(1, "one"), ReserveAs(2, "two")}));
  caller.HalfClose();
  ASSERT_TRUE(observer_.Await(&Counts::queued, 2));
  store_.Open();
  EXPECT_THAT(caller.Answers(2), SizeIs(2));
  EXPECT_TRUE(caller.Status().ok());
}

TEST_P(SessionTest, DrainingIsAnnouncedAndWhatComesIsStillAnswered) {
  Caller caller(*stub_);
  const std::string token = caller.Token(1, "one");
  service_->DrainSessions();
  v1::SessionResponse frame;
  while (!frame.draining()) ASSERT_TRUE(caller.Read(frame));
  std::thread shutdown([this] { server_->Shutdown(std::chrono::seconds(10)); });
  EXPECT_TRUE(caller.Ask(CompleteAs(2, "one", token)).has_complete());
  caller.HalfClose();
  EXPECT_TRUE(caller.Status().ok());
  shutdown.join();
}

TEST_P(SessionTest, ASecondDrainIsNotAnnounced) {
  Caller caller(*stub_);
  caller.First();
  service_->DrainSessions();
  v1::SessionResponse frame;
  ASSERT_TRUE(caller.Read(frame));
  EXPECT_TRUE(frame.draining());
  service_->DrainSessions();
  ASSERT_TRUE(caller.Send({ReserveAs(1, "one")}));
  ASSERT_TRUE(caller.Read(frame));
  EXPECT_FALSE(frame.draining());
  EXPECT_THAT(frame.answers(), SizeIs(1));
}

TEST_P(SessionTest, AnOldSessionRequestsAnotherOnceAndStaysUsable) {
  SessionOptions session;
  session.max_age = absl::Minutes(1);
  Serve(session);
  Caller caller(*stub_);
  caller.First();
  EXPECT_TRUE(caller.Ask(ReserveAs(1, "a")).reserve().has_reserved());
  clock_.Advance(absl::Minutes(1));
  ASSERT_TRUE(caller.Send({ReserveAs(2, "b")}));
  ASSERT_TRUE(caller.Send({ReserveAs(3, "c")}));
  int farewells = 0;
  std::size_t answers = 0;
  v1::SessionResponse frame;
  while ((farewells == 0 || answers < 2) && caller.Read(frame)) {
    farewells += frame.draining() ? 1 : 0;
    answers += frame.answers_size();
  }
  EXPECT_EQ(answers, 2);
  // Nor is it requested again with later answers.
  ASSERT_TRUE(caller.Send({ReserveAs(4, "d")}));
  caller.HalfClose();
  while (caller.Read(frame)) farewells += frame.draining() ? 1 : 0;
  EXPECT_EQ(farewells, 1);
}

TEST_P(SessionTest, ASessionIsOfAgeAtItsInstantAndNotBefore) {
  SessionOptions session;
  session.max_age = absl::Minutes(1);
  Serve(session);
  Caller caller(*stub_);
  caller.First();
  clock_.Advance(absl::Minutes(1) - absl::Microseconds(1));
  ASSERT_TRUE(caller.Send({ReserveAs(1, "a")}));
  v1::SessionResponse frame;
  ASSERT_TRUE(caller.Read(frame));
  EXPECT_FALSE(frame.draining());
  clock_.Advance(absl::Microseconds(1));
  ASSERT_TRUE(caller.Send({ReserveAs(2, "b")}));
  while (!frame.draining()) ASSERT_TRUE(caller.Read(frame));
}

// Its next operation would be the first to meet the end of the token.
TEST_P(SessionTest, AnIdleSessionRequestsAnotherBeforeItsTokenExpires) {
  const testing::TokenSigner issuer(testing::TokenSigner::Kind::kEd25519);
  AccessRules rules;
  rules.identities.push_back({});
  rules.identities[0].name = "payments";
  rules.identities[0].token_subjects = {{"https://issuer.example", "payments"}};
  rules.issuers = {TokenIssuer("https://issuer.example", "idempotencyd",
                               ParseJsonWebKeySet(issuer.KeySet()).value())};
  access_.Restrict(std::make_shared<AccessPolicy>(rules), clock_);
  Serve({});
  const absl::Time end = clock_.Now() + absl::Minutes(10);
  const std::string token = issuer.Sign(absl::StrCat(
      R"({"iss":"https://issuer.example","aud":"idempotencyd","sub":"payments","exp":)",
      absl::ToUnixSeconds(end), "}"));
  Caller early(*stub_, token);
  early.First();
  Caller idle(*stub_, token);
  idle.First();
  ASSERT_TRUE(observer_.Await(&Counts::sessions, 2));
  service_->CheckCalls();
  early.HalfClose();
  v1::SessionResponse frame;
  EXPECT_FALSE(early.Read(frame));

  clock_.Advance(end + kTokenClockTolerance - internal::Caller::kRenewal / 2 - clock_.Now());
  service_->CheckCalls();
  ASSERT_TRUE(idle.Read(frame));
  EXPECT_TRUE(frame.draining());
  service_->CheckCalls();
  idle.HalfClose();
  EXPECT_FALSE(idle.Read(frame)) << "it is requested once";
}

TEST_P(SessionTest, ASessionThatBeginsDuringTheDrainGetsTheNotice) {
  service_->DrainSessions();
  Caller caller(*stub_);
  v1::SessionResponse frame;
  ASSERT_TRUE(caller.Read(frame));
  EXPECT_TRUE(frame.has_limits());
  while (!frame.draining()) ASSERT_TRUE(caller.Read(frame));
}

TEST_P(SessionTest, TheDrainDeadlineEndsASessionThatStays) {
  Caller caller(*stub_);
  caller.First();
  service_->DrainSessions();
  server_->Shutdown(std::chrono::milliseconds(100));
  EXPECT_FALSE(caller.Status().ok());
  EXPECT_TRUE(observer_.Await(&Counts::sessions, 0));
}

// Answers come from several workers while frames come in and streams end.
TEST_P(SessionTest, EveryOperationIsAnsweredOnceUnderLoad) {
  Serve({}, /*workers=*/4);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([this, c] {
      Caller caller(*stub_);
      std::size_t granted = 0;
      std::thread writer([&caller, c] {
        for (int frame = 0; frame < 50; ++frame) {
          std::vector<v1::SessionOperation> operations;
          for (int i = 0; i < 1 + frame % 7; ++i) {
            const int id = frame * 10 + i;
            operations.push_back(ReserveAs(id, std::to_string(c) + "/" + std::to_string(id)));
          }
          EXPECT_TRUE(caller.Send(std::move(operations)));
        }
        caller.HalfClose();
      });
      std::size_t sent = 0;
      for (int frame = 0; frame < 50; ++frame) sent += 1 + frame % 7;
      for (const auto& [id, answer] : caller.Answers(sent)) {
        if (answer.reserve().has_reserved()) ++granted;
      }
      writer.join();
      EXPECT_EQ(granted, sent);
      EXPECT_TRUE(caller.Status().ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
}

INSTANTIATE_TEST_SUITE_P(Api, SessionTest,
                         ::testing::Values(ServerApi::kCallback, ServerApi::kCompletionQueue),
                         [](const auto& api) { return NameOf(api.param); });

}  // namespace
}  // namespace idempotency::internal
