#include "server/rpc/idempotency_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/field_memory.h"
#include "core/sha256.h"
#include "core/testing/answers.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "server/access/access_control.h"
#include "server/access/access_policy.h"
#include "server/rpc/frame_bounds.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/api_server.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"
#include "tests/support/raw_calls.h"
#include "tracing/testing/kept_spans.h"

namespace idempotency::internal {
namespace {

using Counts = CountingObserver::Counts;

// The service as a client sees it, over a socket of the loopback interface.
class IdempotencyServiceTest : public ::testing::TestWithParam<ServerApi> {
 protected:
  void SetUp() override {
    server_ = std::make_unique<ApiServer>(GetParam(), service_);
    channel_ = server_->Channel();
    stub_ = v1::IdempotencyService::NewStub(channel_);
  }

  void TearDown() override {
    store_.Open();
    waiters_.Close();
    server_.reset();
    batcher_.Close();
    EXPECT_EQ(batcher_.budget().held(), 0u) << "whatever became of the answers";
  }

  static v1::ReserveRequest ReserveRequestFor(std::string_view name, char request = 'a') {
    v1::ReserveRequest proto;
    *proto.mutable_record_key() = ToProto(KeyNamed(name));
    *proto.add_fingerprints() = ToProto(Fingerprint{1, std::string(32, request)});
    proto.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
    return proto;
  }

  // Fails the test unless the call succeeds.
  v1::ReserveResponse Reserve(const v1::ReserveRequest& request) {
    grpc::ClientContext context;
    v1::ReserveResponse response;
    const grpc::Status status = stub_->Reserve(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Complete(std::string_view name, const std::string& token,
                        const std::string& body = "done") {
    v1::CompleteRequest request;
    *request.mutable_record_key() = ToProto(KeyNamed(name));
    request.set_reservation_token(token);
    request.mutable_reply()->set_body(body);
    request.mutable_reply()->set_message("message");
    grpc::ClientContext context;
    v1::CompleteResponse response;
    const grpc::Status status = stub_->Complete(&context, request, &response);
    EXPECT_EQ(status.ok(), response.has_completed_at() && response.has_expires_at());
    return status;
  }
  // For a method, with any bytes.
  absl::Status CallRaw(std::string_view method, const std::string& bytes) {
    return FromGrpcStatus(testing::CallRaw(
        channel_, absl::StrCat("/idempotency.v1.IdempotencyService/", AbslView(method)), bytes));
  }
  grpc::Status Get(const v1::GetRequest& request, v1::Record* record) {
    grpc::ClientContext context;
    v1::GetResponse response;
    const grpc::Status status = stub_->Get(&context, request, &response);
    *record = response.record();
    return status;
  }

  BatcherOptions Batching() const {
    BatcherOptions options;
    options.threads = 2;
    options.clock = &clock_;
    return options;
  }
  InFlightWaitersOptions OnClock() const {
    InFlightWaitersOptions options;
    options.clock = &clock_;
    return options;
  }

  // Stands still unless a test moves it, so that periodic reads find nothing and no wait ends by
  // itself.
  ManualClock clock_;
  ManualClock store_clock_;
  MemoryStore memory_{store_clock_};
  GatedStore store_{memory_};
  CountingObserver observer_;
  Batcher batcher_{store_, observer_, Batching()};
  InFlightWaiters waiters_{batcher_, observer_, OnClock()};
  IdempotencyService service_{
      batcher_, waiters_, observer_,
      IdempotencyServiceOptions{
          {limits::kDefaultWindow, absl::Milliseconds(100), absl::Seconds(1), false, &clock_},
          {},
          nullptr}};
  std::unique_ptr<ApiServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

TEST_P(IdempotencyServiceTest, ReservesCompletesAndReplays) {
  const v1::ReserveResponse first = Reserve(ReserveRequestFor("one"));
  ASSERT_TRUE(first.has_reserved());
  EXPECT_EQ(first.record_id(), IdNamed("one").ToString());
  EXPECT_EQ(first.reserved().attempt(), 1u);
  EXPECT_EQ(first.reserved().lease_remaining().seconds(), 30);
  EXPECT_EQ(first.reserved().created_at().seconds(), absl::ToUnixSeconds(clock_.Now()));
  EXPECT_EQ(first.reserved().expires_at().seconds() - first.reserved().created_at().seconds(),
            24 * 3600);
  ASSERT_TRUE(Complete("one", first.reserved().reservation_token()).ok());

  const v1::ReserveResponse second = Reserve(ReserveRequestFor("one"));
  ASSERT_TRUE(second.has_replay());
  EXPECT_EQ(second.record_id(), first.record_id());
  EXPECT_EQ(second.replay().reply().body(), "done");
  EXPECT_EQ(second.replay().attempt(), 1u);
  EXPECT_TRUE(second.replay().has_completed_at());
  EXPECT_EQ(observer_.counts().verdicts, 2u);
}

TEST_P(IdempotencyServiceTest, GrantsAndReplaysCarryTheLabelsOfTheFirstReservation) {
  v1::ReserveRequest request = ReserveRequestFor("one");
  (*request.mutable_labels())["build"] = "41";
  (*request.mutable_labels())["request"] = "r-1";
  const v1::Reserved first = Reserve(request).reserved();
  EXPECT_THAT(first.labels(), ::testing::UnorderedElementsAre(::testing::Pair("build", "41"),
                                                              ::testing::Pair("request", "r-1")));
  ASSERT_TRUE(Complete("one", first.reservation_token()).ok());
  (*request.mutable_labels())["build"] = "42";
  EXPECT_THAT(Reserve(request).replay().labels(),
              ::testing::UnorderedElementsAre(::testing::Pair("build", "41"),
                                              ::testing::Pair("request", "r-1")));
}

TEST_P(IdempotencyServiceTest, InFlightHasARetryDelay) {
  v1::ReserveRequest request = ReserveRequestFor("one");
  Reserve(request);
  const v1::ReserveResponse in_flight = Reserve(request);
  ASSERT_TRUE(in_flight.has_in_flight());
  EXPECT_EQ(in_flight.in_flight().attempt(), 1u);
  EXPECT_EQ(in_flight.in_flight().retry_after().seconds(), 1) << "not the whole lease";

  store_clock_.Advance(limits::kDefaultLease - absl::Milliseconds(400));
  const v1::InFlight nearly_over = Reserve(request).in_flight();
  EXPECT_EQ(nearly_over.retry_after().seconds(), 0);
  EXPECT_EQ(nearly_over.retry_after().nanos(), 400'000'000);
  store_clock_.Advance(absl::Milliseconds(399));
  EXPECT_EQ(Reserve(request).in_flight().retry_after().nanos(), 100'000'000);
}

TEST_P(IdempotencyServiceTest, AnotherRequestIsAMismatchAndCounted) {
  Reserve(ReserveRequestFor("one"));
  const v1::ReserveResponse response = Reserve(ReserveRequestFor("one", 'b'));
  ASSERT_TRUE(response.has_mismatch());
  EXPECT_EQ(response.mismatch().attempt(), 1u);
  EXPECT_EQ(observer_.counts().mismatches, 1u);
}

TEST_P(IdempotencyServiceTest, ALapsedReservationUnderRecoveryIsOutcomeUnknown) {
  v1::ReserveRequest request = ReserveRequestFor("one");
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  Reserve(request);
  store_clock_.Advance(limits::kDefaultLease);
  EXPECT_EQ(Reserve(request).outcome_unknown().attempt(), 1u);
  request.set_recover(true);
  const v1::ReserveResponse recovering = Reserve(request);
  EXPECT_TRUE(recovering.reserved().recovering());
  EXPECT_EQ(recovering.reserved().attempt(), 2u);
}

TEST_P(IdempotencyServiceTest, AnOldKeyIsExpired) {
  v1::ReserveRequest request = ReserveRequestFor("one");
  request.mutable_record_key()->set_key(
      Uuid::TimeOrdered(clock_.Now() - absl::Hours(25)).ToString());
  EXPECT_TRUE(Reserve(request).has_expired());
}

TEST_P(IdempotencyServiceTest, APauseIsReportedInFullAndALeaseIsNot) {
  const v1::ReserveRequest request = ReserveRequestFor("one");
  v1::ReleaseRequest release;
  *release.mutable_record_key() = ToProto(KeyNamed("one"));
  release.set_reservation_token(Reserve(request).reserved().reservation_token());
  release.mutable_pause()->set_seconds(600);
  grpc::ClientContext context;
  v1::ReleaseResponse released;
  ASSERT_TRUE(stub_->Release(&context, release, &released).ok());
  EXPECT_EQ(Reserve(request).in_flight().retry_after().seconds(), 600);
}

TEST_P(IdempotencyServiceTest, AnUnknownOutcomeHasItsCauseAndTime) {
  const v1::ReserveRequest request = ReserveRequestFor("one");
  v1::ReleaseRequest release;
  *release.mutable_record_key() = ToProto(KeyNamed("one"));
  release.set_reservation_token(Reserve(request).reserved().reservation_token());
  release.set_outcome(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  release.set_reason("the bank did not answer");
  grpc::ClientContext context;
  v1::ReleaseResponse released;
  ASSERT_TRUE(stub_->Release(&context, release, &released).ok());
  const v1::OutcomeUnknown unknown = Reserve(request).outcome_unknown();
  EXPECT_EQ(unknown.cause(), v1::OutcomeUnknown::CAUSE_RELEASED);
  EXPECT_EQ(unknown.reason(), "the bank did not answer");
  EXPECT_EQ(unknown.since().seconds(), absl::ToUnixSeconds(clock_.Now()));
}

TEST_P(IdempotencyServiceTest, ExtendsWithACheckpointAndReleases) {
  const v1::ReserveResponse first = Reserve(ReserveRequestFor("one"));
  v1::ExtendRequest extend;
  *extend.mutable_record_key() = ToProto(KeyNamed("one"));
  extend.set_reservation_token(first.reserved().reservation_token());
  extend.mutable_lease()->set_seconds(60);
  extend.set_checkpoint("step 2");
  grpc::ClientContext extend_context;
  v1::ExtendResponse extended;
  ASSERT_TRUE(stub_->Extend(&extend_context, extend, &extended).ok());
  EXPECT_EQ(extended.lease_remaining().seconds(), 60);

  v1::ReleaseRequest release;
  *release.mutable_record_key() = ToProto(KeyNamed("one"));
  release.set_reservation_token(first.reserved().reservation_token());
  release.set_reason("nothing was charged");
  grpc::ClientContext release_context;
  v1::ReleaseResponse released;
  ASSERT_TRUE(stub_->Release(&release_context, release, &released).ok());

  v1::GetRequest get;
  get.set_record_id(first.record_id());
  v1::Record record;
  ASSERT_TRUE(Get(get, &record).ok());
  EXPECT_EQ(record.state(), v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(record.release_reason(), "nothing was charged");
  const v1::ReserveResponse second = Reserve(ReserveRequestFor("one"));
  EXPECT_EQ(second.reserved().attempt(), 2u);
  EXPECT_EQ(second.reserved().checkpoint(), "step 2");
}

TEST_P(IdempotencyServiceTest, GetsTheReplyOnlyInTheFullView) {
  v1::ReserveRequest request = ReserveRequestFor("one");
  *request.mutable_parent() = ToProto(KeyNamed("parent"));
  (*request.mutable_labels())["build"] = "42";
  *request.add_fingerprints() = ToProto(Fingerprint{2, std::string(32, 'x')});
  ASSERT_TRUE(Complete("one", Reserve(request).reserved().reservation_token()).ok());

  v1::GetRequest get;
  *get.mutable_record_key() = request.record_key();
  v1::Record record;
  ASSERT_TRUE(Get(get, &record).ok());
  EXPECT_EQ(record.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(record.record_id(), IdNamed("one").ToString());
  EXPECT_EQ(record.record_key().key(), "one");
  EXPECT_EQ(record.parent().key(), "parent");
  EXPECT_EQ(record.labels().at("build"), "42");
  EXPECT_EQ(record.fingerprint().version(), 2u);
  EXPECT_EQ(record.fingerprints_size(), 2);
  EXPECT_EQ(record.reply().message(), "message");
  EXPECT_FALSE(record.reply().has_body());
  get.set_view(v1::RECORD_VIEW_FULL);
  ASSERT_TRUE(Get(get, &record).ok());
  EXPECT_EQ(record.reply().body(), "done");
}

// A reply that finds no room because of others is no fault of its namespace.
TEST_P(IdempotencyServiceTest, AReplyWithoutRoomCountsToWhatFillsTheMemory) {
  v1::GetRequest get;
  *get.mutable_record_key() = ToProto(KeyNamed("one"));
  get.set_view(v1::RECORD_VIEW_FULL);
  const std::string token = Reserve(ReserveRequestFor("one")).reserved().reservation_token();
  ASSERT_TRUE(Complete("one", token).ok());
  const std::size_t half = BatcherOptions().max_bytes / 2;
  for (const std::string& name_space : {std::string("another"), KeyNamed("one").name_space}) {
    const auto waiters = batcher_.budget().TryHoldWaiter(name_space, half);
    const auto reply = batcher_.budget().TryHoldReply("third", 1);
    ASSERT_TRUE(waiters.has_value() && reply.has_value());
    v1::Record record;
    EXPECT_EQ(ReasonOf(FromGrpcStatus(Get(get, &record))), Reason::kOverloaded);
  }
  EXPECT_EQ(observer_.counts().shed, 1u) << "another namespace fills it";
  EXPECT_EQ(observer_.counts().shed_of_callers, 1u) << "its own does";
}

TEST_P(IdempotencyServiceTest, AMissingRecordIsNotFound) {
  v1::GetRequest get;
  get.set_record_id(Uuid::Random().ToString());
  v1::Record record;
  const grpc::Status status = Get(get, &record);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRecordNotFound);
}

TEST_P(IdempotencyServiceTest, AStaleTokenIsRefused) {
  Reserve(ReserveRequestFor("one"));
  const grpc::Status status = Complete("one", Uuid::Random().ToString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kReservationLost);
  EXPECT_EQ(observer_.counts().reservations_lost, 1u);
}

TEST_P(IdempotencyServiceTest, ADamagedReplyIsDataLoss) {
  const Uuid token = std::get<Reserved>(*memory_.Reserve({ReserveNamed("one")})[0]).token;
  CompleteOp damaged = CompleteNamed("one", token);
  damaged.reply.digest[0] ^= 1;
  ASSERT_TRUE(memory_.Complete({damaged})[0].ok());

  grpc::ClientContext context;
  v1::ReserveResponse response;
  const grpc::Status status = stub_->Reserve(&context, ReserveRequestFor("one"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRecordDamaged);
  v1::GetRequest get;
  get.set_record_id(IdNamed("one").ToString());
  v1::Record record;
  EXPECT_EQ(Get(get, &record).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(observer_.counts().verdicts, 0u);
}

TEST_P(IdempotencyServiceTest, AReplyOverTheLimitIsStoredWithoutItsContent) {
  const std::string token = Reserve(ReserveRequestFor("one")).reserved().reservation_token();
  ASSERT_TRUE(Complete("one", token, std::string(limits::kMaxReplyBytes + 1, 'b')).ok());
  const v1::Reply reply = Reserve(ReserveRequestFor("one")).replay().reply();
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(reply.message(), "message");
  EXPECT_FALSE(reply.has_body());
}

// The same for a call that waited for the reply as for one that found it.
TEST_P(IdempotencyServiceTest, AReplyOverTheCallersLimitIsMarkedAndLacksItsContent) {
  const v1::ReserveRequest plain = ReserveRequestFor("one");
  const std::string token = Reserve(plain).reserved().reservation_token();
  v1::ReserveRequest small = plain;
  small.set_max_reply_bytes(1000);
  small.mutable_max_wait()->set_seconds(20);
  std::thread waiter([&] {
    const v1::Replay replay = Reserve(small).replay();
    EXPECT_EQ(replay.reply().content(), v1::REPLY_CONTENT_STATUS_ONLY);
    EXPECT_GT(replay.omitted_bytes(), 2000u);
  });
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 1));
  EXPECT_TRUE(Complete("one", token, std::string(2000, 'b')).ok());
  waiter.join();

  v1::Replay replay = Reserve(small).replay();
  EXPECT_EQ(replay.reply().content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(replay.reply().message(), "message");
  EXPECT_FALSE(replay.reply().has_body());
  EXPECT_EQ(replay.attempt(), 1u);
  const std::uint64_t weight = replay.omitted_bytes();

  small.set_max_reply_bytes(weight - 1);
  EXPECT_EQ(Reserve(small).replay().omitted_bytes(), weight);
  small.set_max_reply_bytes(weight);
  for (const v1::ReserveRequest& request : {small, plain}) {
    replay = Reserve(request).replay();
    EXPECT_EQ(replay.reply().body(), std::string(2000, 'b'));
    EXPECT_EQ(replay.omitted_bytes(), 0u);
  }
}

TEST_P(IdempotencyServiceTest, EveryMethodRefusesAnEmptyRequest) {
  const auto expect_refused = [](const grpc::Status& status, const std::string& field) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const ErrorDetails details = DetailsOf(FromGrpcStatus(status));
    ASSERT_GE(details.violations.size(), 1u);
    EXPECT_EQ(details.violations[0].field, field);
  };
  const auto call = [this](auto method, const auto& request, auto response) {
    grpc::ClientContext context;
    return (stub_.get()->*method)(&context, request, &response);
  };
  using Stub = v1::IdempotencyService::Stub;
  expect_refused(call(&Stub::Reserve, v1::ReserveRequest(), v1::ReserveResponse()), "record_key");
  expect_refused(call(&Stub::Complete, v1::CompleteRequest(), v1::CompleteResponse()),
                 "record_key");
  expect_refused(call(&Stub::Release, v1::ReleaseRequest(), v1::ReleaseResponse()), "record_key");
  expect_refused(call(&Stub::Extend, v1::ExtendRequest(), v1::ExtendResponse()), "record_key");
  expect_refused(call(&Stub::Get, v1::GetRequest(), v1::GetResponse()), "record_key");
  v1::ReserveRequest endless = ReserveRequestFor("one");
  endless.mutable_max_wait()->set_seconds(61);
  expect_refused(call(&Stub::Reserve, endless, v1::ReserveResponse()), "max_wait");
  EXPECT_EQ(observer_.counts().failed_rpcs, 6u);
  EXPECT_TRUE(store_.calls().empty());
}

constexpr const char* kMethods[] = {"Reserve", "Complete", "Release", "Extend", "Get"};

TEST_P(IdempotencyServiceTest, EveryMethodRefusesWhatIsNoMessage) {
  for (const char* const method : kMethods) {
    for (const std::string& bytes : {std::string("\xff\xff"), std::string("\x0a\x7f short")}) {
      const absl::Status refused = CallRaw(method, bytes);
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << method;
      EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid) << method << ": " << refused;
    }
  }
  EXPECT_EQ(observer_.counts().failed_rpcs, 10u);
}

// Two bytes on the wire are a field, which takes a few dozen once it is parsed.
TEST_P(IdempotencyServiceTest, EveryMethodRefusesARequestThatWouldTakeMuchMemory) {
  std::string wide;
  for (int i = 0; i < 2'000'000; ++i) wide += "\x7b\x7c";
  for (const char* const method : kMethods) {
    const absl::Status refused = CallRaw(method, wide);
    EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid) << method << ": " << refused;
    const ErrorDetails details = DetailsOf(refused);
    ASSERT_EQ(details.violations.size(), 1u) << method << ": " << refused;
    EXPECT_EQ(details.violations[0].field, "request");
  }
  EXPECT_TRUE(store_.calls().empty());
}

// Nobody makes spans without credentials, whatever the request is.
TEST_P(IdempotencyServiceTest, ACallerWithoutCredentialsHasNoSpan) {
  AccessRules rules;
  AccessRules::Identity& alice = rules.identities.emplace_back();
  alice.name = "alice";
  alice.token_digests = {Sha256("secret")};
  AccessControl access;
  access.Restrict(std::make_shared<AccessPolicy>(std::move(rules)), clock_);
  testing::KeptSpans spans;
  IdempotencyServiceOptions options;
  options.clock = &clock_;
  options.access = &access;
  options.tracer = &spans;
  IdempotencyService service(batcher_, waiters_, observer_, options);
  ApiServer server(GetParam(), service);
  const auto stub = v1::IdempotencyService::NewStub(server.Channel());
  for (const bool valid : {true, false}) {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    v1::ReserveResponse response;
    const v1::ReserveRequest request = valid ? ReserveRequestFor("one") : v1::ReserveRequest();
    EXPECT_FALSE(stub->Reserve(&context, request, &response).ok());
  }
  server.Shutdown(std::chrono::seconds(5));
  EXPECT_TRUE(spans.spans().empty());
}

// Bytes that would be refused once they are parsed.
TEST_P(IdempotencyServiceTest, NothingIsParsedForWhichThereIsNoRoom) {
  const std::size_t most = BatcherOptions().max_bytes;
  MemoryBudget::Hold held = *batcher_.budget().TryHoldRequest(most, /*brings_work=*/false);
  for (const char* const method : kMethods) {
    const absl::Status refused = CallRaw(method, "\xff");
    EXPECT_EQ(ReasonOf(refused), Reason::kOverloaded) << method << ": " << refused;
    EXPECT_TRUE(DetailsOf(refused).retry_delay.has_value());
  }
  EXPECT_EQ(observer_.counts().shed, 5u);
  // The remaining fifth is for operations that end work.
  held.ShrinkTo(most - most / 10);
  for (const char* const method : kMethods) {
    const bool brings_work = method == std::string("Reserve") || method == std::string("Get");
    EXPECT_EQ(ReasonOf(CallRaw(method, "\xff")),
              brings_work ? Reason::kOverloaded : Reason::kRequestInvalid)
        << method;
  }
  held.Release();
  EXPECT_EQ(batcher_.budget().held(), 0u);
}

// Once parsed it takes five megabytes, and its operation a fifth of that.
TEST_P(IdempotencyServiceTest, ARequestIsHeldNoLongerThanItIsRead) {
  const std::string token = Reserve(ReserveRequestFor("one")).reserved().reservation_token();
  v1::CompleteRequest request;
  *request.mutable_record_key() = ToProto(KeyNamed("one"));
  request.set_reservation_token(token);
  for (int i = 0; i < 100'000; ++i) request.mutable_reply()->add_stream();
  store_.Shut();
  grpc::Status status;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::CompleteResponse response;
    status = stub_->Complete(&context, request, &response);
  });
  EXPECT_TRUE(store_.AwaitCalls(2));
  EXPECT_GT(observer_.counts().most_held, 100'000 * kFieldBytes) << "while it was read";
  EXPECT_GT(batcher_.budget().held(), 200'000u);
  EXPECT_LT(batcher_.budget().held(), 300'000u);
  store_.Open();
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_P(IdempotencyServiceTest, AnErrorWithAWaitPushesRetriesBack) {
  store_.Fail(OperationKind::kReserve, Reason::kStoreUnavailable);
  grpc::ClientContext context;
  v1::ReserveResponse response;
  const grpc::Status status = stub_->Reserve(&context, ReserveRequestFor("one"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(DetailsOf(FromGrpcStatus(status)).retry_delay, GatedStore::kRetryDelay);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_EQ(pushback->second, "250");
  EXPECT_TRUE(context.GetServerInitialMetadata().empty()) << "a rejection is Trailers-Only";
}

// Calls that wait, made from threads of their own.
class WaitingTest : public IdempotencyServiceTest {
 protected:
  ~WaitingTest() override {
    for (std::thread& caller : callers_) caller.join();
  }
  void Wait(std::string_view name, grpc::ClientContext* context = nullptr) {
    v1::ReserveRequest request = ReserveRequestFor(name);
    request.mutable_max_wait()->set_seconds(30);
    callers_.emplace_back([this, request, context] {
      grpc::ClientContext own;
      v1::ReserveResponse response;
      const grpc::Status status =
          stub_->Reserve(context != nullptr ? context : &own, request, &response);
      responses_.Add({status, response});
    });
  }

  Answers<std::pair<grpc::Status, v1::ReserveResponse>> responses_;
  std::vector<std::thread> callers_;
};

TEST_P(WaitingTest, ACompletionThroughTheServiceWakesTheWaiters) {
  const std::string token = Reserve(ReserveRequestFor("one")).reserved().reservation_token();
  for (int i = 0; i < 8; ++i) Wait("one");
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 8));

  ASSERT_TRUE(Complete("one", token).ok());
  const auto responses = responses_.Await(8);
  ASSERT_EQ(responses.size(), 8u);
  for (const auto& [status, response] : responses) {
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.replay().reply().body(), "done");
  }
}

TEST_P(WaitingTest, ACancelledWaiterIsNeverGranted) {
  const std::string token = Reserve(ReserveRequestFor("one")).reserved().reservation_token();
  grpc::ClientContext context;
  Wait("one", &context);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));

  context.TryCancel();
  EXPECT_EQ(responses_.Await(1)[0].first.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(observer_.Await(&Counts::waiters, 0));
  v1::ReleaseRequest release;
  *release.mutable_record_key() = ToProto(KeyNamed("one"));
  release.set_reservation_token(token);
  grpc::ClientContext release_context;
  v1::ReleaseResponse released;
  ASSERT_TRUE(stub_->Release(&release_context, release, &released).ok());
  EXPECT_EQ(memory_.Get({GetNamed("one")})[0]->state, RecordState::kReleased);
}

TEST_P(WaitingTest, AGrantForACallerThatHungUpIsGivenBack) {
  store_.Shut();
  grpc::ClientContext context;
  Wait("one", &context);
  ASSERT_TRUE(store_.AwaitCalls(1));
  context.TryCancel();
  ASSERT_EQ(responses_.Await(1).size(), 1u);
  ASSERT_TRUE(observer_.Await(&Counts::callers_left, 1));
  store_.Open();
  ASSERT_TRUE(observer_.Await(&Counts::rpcs, 1));
  ASSERT_TRUE(store_.AwaitCalls(2));
  batcher_.Close();
  EXPECT_EQ(memory_.Get({GetNamed("one")})[0]->state, RecordState::kReleased);
}

TEST_P(WaitingTest, CloseOfTheWaitRoomAnswersTheWaiters) {
  Reserve(ReserveRequestFor("one"));
  Wait("one");
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  waiters_.Close();
  const auto responses = responses_.Await(1);
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_TRUE(responses[0].second.has_in_flight());
}

TEST_P(WaitingTest, TheWaitEndsBeforeTheDeadlineOfTheCall) {
  Reserve(ReserveRequestFor("one"));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  Wait("one", &context);
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  // Longer than the deadline, which gRPC rounds up in transit, and shorter than the requested wait.
  clock_.Advance(absl::Seconds(25));
  const auto responses = responses_.Await(1);
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_TRUE(responses[0].second.has_in_flight()) << responses[0].first.error_message();
}

TEST_P(WaitingTest, AReleaseThroughTheServiceLetsAWaiterRun) {
  const std::string token = Reserve(ReserveRequestFor("one")).reserved().reservation_token();
  Wait("one");
  ASSERT_TRUE(observer_.Await(&Counts::waiters, 1));
  v1::ReleaseRequest release;
  *release.mutable_record_key() = ToProto(KeyNamed("one"));
  release.set_reservation_token(token);
  grpc::ClientContext context;
  v1::ReleaseResponse released;
  ASSERT_TRUE(stub_->Release(&context, release, &released).ok());
  const auto responses = responses_.Await(1);
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].second.reserved().attempt(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Api, IdempotencyServiceTest,
                         ::testing::Values(ServerApi::kCallback, ServerApi::kCompletionQueue),
                         [](const auto& api) { return NameOf(api.param); });
INSTANTIATE_TEST_SUITE_P(Api, WaitingTest,
                         ::testing::Values(ServerApi::kCallback, ServerApi::kCompletionQueue),
                         [](const auto& api) { return NameOf(api.param); });

}  // namespace
}  // namespace idempotency::internal
