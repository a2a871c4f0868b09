// The guard in a real server, once with the sync and once with the callback
// API, over a fake store.
#include "grpc_idempotency/server_guard/server_guard.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "client/testing/fake_connection.h"
#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "interceptors/server/call/guarded_call_table.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::BalanceReply;
using testdata::BalanceRequest;
using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Operation = FakeConnection::Operation;

constexpr char kCharge[] = "/idempotency.testdata.Till/Charge";
constexpr char kWatch[] = "/idempotency.testdata.Till/Watch";
constexpr char kKey[] = "order-1";

using Handler =
    std::function<grpc::Status(grpc::ServerContextBase*, const ChargeRequest&, ChargeReply*)>;

// Shared by both APIs: a handler that can be changed, and a count.
struct Book {
  Handler handler;
  std::atomic<int> runs{0};

  grpc::Status Charge(grpc::ServerContextBase* context, const ChargeRequest& request,
                      ChargeReply* reply) {
    ++runs;
    return handler(context, request, reply);
  }
};

class SyncTill final : public Till::Service {
 public:
  static constexpr bool kSync = true;
  explicit SyncTill(Book& book) : book_(book) {}
  grpc::Status Charge(grpc::ServerContext* context, const ChargeRequest* request,
                      ChargeReply* reply) override {
    return book_.Charge(context, *request, reply);
  }
  grpc::Status Balance(grpc::ServerContext*, const BalanceRequest*, BalanceReply* reply) override {
    reply->set_amount_cents(7);
    return grpc::Status::OK;
  }
  grpc::Status Watch(grpc::ServerContext*, const BalanceRequest*,
                     grpc::ServerWriter<BalanceReply>* writer) override {
    writer->Write(BalanceReply());
    return grpc::Status::OK;
  }

 private:
  Book& book_;
};

class OneBalance final : public grpc::ServerWriteReactor<BalanceReply> {
 public:
  OneBalance() { StartWriteAndFinish(&reply_, {}, grpc::Status::OK); }
  void OnDone() override { const std::unique_ptr<OneBalance> self(this); }

 private:
  BalanceReply reply_;
};

class CallbackTill final : public Till::CallbackService {
 public:
  static constexpr bool kSync = false;
  explicit CallbackTill(Book& book) : book_(book) {}
  grpc::ServerUnaryReactor* Charge(grpc::CallbackServerContext* context,
                                   const ChargeRequest* request, ChargeReply* reply) override {
    // Called first: a reactor that was returned must be finished.
    const grpc::Status status = book_.Charge(context, *request, reply);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  grpc::ServerUnaryReactor* Balance(grpc::CallbackServerContext* context, const BalanceRequest*,
                                    BalanceReply* reply) override {
    reply->set_amount_cents(7);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerWriteReactor<BalanceReply>* Watch(grpc::CallbackServerContext*,
                                                const BalanceRequest*) override {
    return std::make_unique<OneBalance>().release();
  }

 private:
  Book& book_;
};

// Reads every message as its expected type, and adds a trailer.
class Witness final : public grpc::experimental::Interceptor {
 public:
  explicit Witness(std::atomic<int>& charges) : charges_(charges) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const auto* reply = static_cast<const ChargeReply*>(batch->GetSendMessage());
      if (reply != nullptr && reply->charge_id() == "ch_1") ++charges_;
    }
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      batch->GetSendTrailingMetadata()->insert({"x-witness", "seen"});
    }
    batch->Proceed();
  }

 private:
  std::atomic<int>& charges_;
};

class WitnessFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit WitnessFactory(std::atomic<int>& charges) : charges_(charges) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return std::make_unique<Witness>(charges_).release();
  }

 private:
  std::atomic<int>& charges_;
};

// Looks for the call's execution when its reply is sent, after the guard's interceptor.
class LateLook final : public grpc::experimental::Interceptor {
 public:
  LateLook(grpc::ServerContextBase* context, std::atomic<int>& looks, std::atomic<int>& found)
      : context_(context), looks_(looks), found_(found) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      ++looks_;
      if (GuardedCallTable::Instance().Find(context_) != nullptr) ++found_;
    }
    batch->Proceed();
  }

 private:
  grpc::ServerContextBase* const context_;
  std::atomic<int>& looks_;
  std::atomic<int>& found_;
};

class LateLookFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  LateLookFactory(std::atomic<int>& looks, std::atomic<int>& found)
      : looks_(looks), found_(found) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return std::make_unique<LateLook>(info->server_context(), looks_, found_).release();
  }

 private:
  std::atomic<int>& looks_;
  std::atomic<int>& found_;
};

using Metadata = std::multimap<std::string, std::string>;

struct Outcome {
  grpc::Status status;
  std::string body;
  bool has_body = false;
  Metadata initial;
  Metadata trailing;

  std::optional<Reason> reason() const { return ReasonOf(FromGrpcStatus(status)); }
  // The handler's metadata, without the guard's.
  Metadata own_trailing() const {
    Metadata own = trailing;
    for (const auto key : {kRecordMetadata, kExpiresMetadata, kReplayedMetadata}) {
      own.erase(std::string(key));
    }
    return own;
  }
};

Metadata ToMetadata(const std::multimap<grpc::string_ref, grpc::string_ref>& from) {
  Metadata to;
  for (const auto& [key, value] : from) {
    to.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  return to;
}

template <typename Service>
class ServerGuardTest : public testing::Test {
 protected:
  ServerGuardTest() {
    options_.name_space = "tills";
    options_.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    options_.scope = SharedScope("everybody");
    options_.verdict_timeout = absl::Seconds(5);
    book_.handler = [](grpc::ServerContextBase* context, const ChargeRequest& request,
                       ChargeReply* reply) {
      reply->set_charge_id("ch_1");
      reply->set_receipt(request.account());
      for (int i = 0; i < 20; ++i) (*reply->mutable_labels())[std::to_string(i)] = "label";
      context->AddInitialMetadata("x-initial", "first");
      context->AddTrailingMetadata("x-trailing", "last");
      return grpc::Status::OK;
    };
  }

  ~ServerGuardTest() override {
    if (server_ != nullptr) {
      if (guard_ != nullptr) {
        store_->Recover();
        guard_->Close();
      }
      server_->Shutdown();
    }
    server_ = nullptr;
  }

  void Start(ServerGuard::InterceptorFactories others = {}, bool replace_interceptors = false) {
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    auto guard = ServerGuard::Create(std::move(connection), options_);
    ASSERT_TRUE(guard.ok()) << guard.status();
    guard_ = *std::move(guard);
    grpc::ServerBuilder builder;
    ASSERT_TRUE(guard_->Protect<Till>(builder, &service_).ok());
    const absl::Status installed = guard_->Install(builder, std::move(others));
    ASSERT_TRUE(installed.ok()) << installed;
    if (replace_interceptors) {
      ServerGuard::InterceptorFactories replacement;
      replacement.push_back(std::make_unique<WitnessFactory>(witnessed_));
      builder.experimental().SetInterceptorCreators(std::move(replacement));
    }
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = "127.0.0.1:" + std::to_string(port);
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }

  // From now on calls are retried as the client library configures gRPC's own retries.
  void RetryWithGrpc() {
    grpc::ChannelArguments arguments;
    arguments.SetServiceConfigJSON(
        R"({"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.1s",
            "maxBackoff":"0.5s","backoffMultiplier":2,
            "retryableStatusCodes":["UNAVAILABLE","ABORTED"]}}]})");
    channel_ = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }

  // One call, with the reply's bytes as received.
  Outcome Charge(std::optional<std::string> key, std::int64_t amount_cents = 100) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return Charge(context, key, amount_cents);
  }

  Outcome Charge(grpc::ClientContext& context, std::optional<std::string> key,
                 std::int64_t amount_cents = 100) {
    ChargeRequest request;
    request.set_account("alice");
    request.set_amount_cents(amount_cents);
    grpc::Slice slice(request.SerializeAsString());
    grpc::ByteBuffer bytes(&slice, 1);

    if (key.has_value()) context.AddMetadata(std::string(kKeyMetadata), *key);
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, kCharge, bytes, &queue);
    call->StartCall();
    Outcome outcome;
    grpc::ByteBuffer reply;
    call->Finish(&reply, &outcome.status, &queue);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    outcome.has_body = reply.Valid();
    grpc::Slice answer;
    if (reply.Valid() && reply.DumpToSingleSlice(&answer).ok()) {
      outcome.body.assign(answer.begin(), answer.end());
    }
    outcome.initial = ToMetadata(context.GetServerInitialMetadata());
    outcome.trailing = ToMetadata(context.GetServerTrailingMetadata());
    outcome.trailing.erase("grpc-status-details-bin");
    return outcome;
  }

  // The same reply; the guard's metadata may differ.
  void ExpectSame(const Outcome& first, const Outcome& second) {
    EXPECT_EQ(first.status.error_code(), second.status.error_code());
    EXPECT_EQ(first.status.error_message(), second.status.error_message());
    EXPECT_EQ(first.status.error_details(), second.status.error_details());
    EXPECT_EQ(first.body, second.body);
    EXPECT_EQ(first.initial, second.initial);
    EXPECT_EQ(first.own_trailing(), second.own_trailing());
  }

  GuardOptions options_;
  Book book_;
  Service service_{book_};
  std::atomic<int> witnessed_{0};
  FakeConnection* store_ = nullptr;
  std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

using Apis = testing::Types<SyncTill, CallbackTill>;
class ApiName {
 public:
  template <typename Service>
  static std::string GetName(int) {
    return Service::kSync ? "Sync" : "Callback";
  }
};
TYPED_TEST_SUITE(ServerGuardTest, Apis, ApiName);

TYPED_TEST(ServerGuardTest, CallWithoutKeyNeverReachesTheHandler) {
  this->Start();
  const Outcome outcome = this->Charge(std::nullopt);
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(outcome.reason(), Reason::kKeyMissing);
  EXPECT_EQ(this->book_.runs, 0);
  EXPECT_EQ(this->store_->calls(Operation::kReserve), 0);
}

TYPED_TEST(ServerGuardTest, SecondCallGetsTheFirstReplyByteForByte) {
  this->Start();
  const Outcome first = this->Charge(kKey);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.initial, testing::Contains(Pair("x-initial", "first")));
  EXPECT_THAT(
      first.trailing,
      UnorderedElementsAre(Pair("x-trailing", "last"), Pair("idempotency-record", testing::_),
                           Pair("idempotency-expires", "2100-01-01T00:00:00Z")));
  for (int i = 0; i < 5; ++i) {
    const Outcome again = this->Charge(kKey);
    this->ExpectSame(first, again);
    EXPECT_THAT(again.trailing, testing::Contains(Pair("idempotency-replayed", "true")));
    EXPECT_THAT(again.trailing, testing::Contains(Pair("idempotency-expires", testing::_)));
  }
  EXPECT_EQ(this->book_.runs, 1);
  EXPECT_THAT(this->store_->record().reply.trailing_metadata(), SizeIs(1));
}

TYPED_TEST(ServerGuardTest, BytesThatDoNotParseAreReplayedAsTheyAre) {
  this->Start();
  v1::ReserveResponse verdict;
  verdict.set_record_id("r");
  verdict.mutable_replay()->mutable_reply()->set_body("\xff\xff not a message");
  this->store_->SetVerdict(verdict);
  const Outcome outcome = this->Charge(kKey);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.body, "\xff\xff not a message");
}

TYPED_TEST(ServerGuardTest, ReplyWithoutAMessageIsNotReplayedWithAnEmptyOne) {
  this->Start();
  v1::ReserveResponse verdict;
  verdict.mutable_replay()->mutable_reply();
  this->store_->SetVerdict(verdict);
  EXPECT_FALSE(this->Charge(kKey).has_body);
  verdict.mutable_replay()->mutable_reply()->set_body("");
  this->store_->SetVerdict(verdict);
  EXPECT_TRUE(this->Charge(kKey).has_body);
}

TYPED_TEST(ServerGuardTest, MetadataThatMayNotBeSentIsLeftOut) {
  this->Start();
  v1::ReserveResponse verdict;
  v1::Reply& reply = *verdict.mutable_replay()->mutable_reply();
  reply.set_body("");
  reply.add_initial_metadata()->set_key("Not Legal");
  reply.add_trailing_metadata()->set_key("x-text");
  reply.mutable_trailing_metadata(0)->set_value("line\nbreak");
  reply.add_trailing_metadata()->set_key("x-bytes-bin");
  reply.mutable_trailing_metadata(1)->set_value("line\nbreak");
  this->store_->SetVerdict(verdict);
  const Outcome outcome = this->Charge(kKey);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_THAT(outcome.own_trailing(), UnorderedElementsAre(Pair("x-bytes-bin", "line\nbreak")));
}

TYPED_TEST(ServerGuardTest, VerdictIsWaitedForNoLongerThanTheCallHas) {
  this->options_.verdict_timeout = absl::Hours(1);
  this->Start();
  this->store_->Hold(Operation::kReserve);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  EXPECT_FALSE(this->Charge(context, kKey).status.ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (GuardedCallTable::Instance().size() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(GuardedCallTable::Instance().size(), 0u);
  this->store_->AnswerHeld(Operation::kReserve);
  EXPECT_TRUE(this->store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_EQ(this->book_.runs, 0);
}

// The callback API cannot detect it before the handler runs.
class SyncServerGuardTest : public ServerGuardTest<SyncTill> {
 protected:
  // Calls, and returns once the server has read that the caller hung up. The verdict stays held.
  void CancelBeforeTheVerdict() {
    store_->Hold(Operation::kReserve);
    grpc::ClientContext context;
    auto call = std::async(std::launch::async, [&] { return Charge(context, kKey); });
    ASSERT_TRUE(store_->WaitForCalls(Operation::kReserve, 1));
    context.TryCancel();
    EXPECT_EQ(call.get().status.error_code(), grpc::StatusCode::CANCELLED);
    // A call over the same connection: once it is answered, the server has read
    // the cancellation that was sent before it.
    grpc::ClientContext next;
    BalanceReply reply;
    EXPECT_TRUE(Till::NewStub(channel_)->Balance(&next, BalanceRequest(), &reply).ok());
  }
};

TEST_F(SyncServerGuardTest, ClientThatHungUpBeforeTheVerdictIsNotRunFor) {
  Start();
  CancelBeforeTheVerdict();
  store_->AnswerHeld(Operation::kReserve);
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_EQ(book_.runs, 0);
}

TEST_F(SyncServerGuardTest, ACallThatDoesNotRunIsNotCountedAsFailedOpen) {
  MethodPolicy policy;
  policy.fail_open = true;
  options_.methods[kCharge].policy = policy;
  options_.verdict_timeout = absl::Seconds(2);
  Start();
  // Long before there is no verdict.
  CancelBeforeTheVerdict();
  // Every handler has ended after it.
  server_->Shutdown();
  EXPECT_EQ(guard_->calls_failed_open(), 0u);
  EXPECT_EQ(book_.runs, 0);
}

TYPED_TEST(ServerGuardTest, ClientThatHangsUpDoesNotStopTheRecording) {
  grpc::ClientContext context;
  this->book_.handler = [&](grpc::ServerContextBase* server_context, const auto&,
                            ChargeReply* reply) {
    context.TryCancel();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    // The callback API reports it only after the handler has returned.
    while (TypeParam::kSync && !server_context->IsCancelled() &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    reply->set_charge_id("ch_1");
    return grpc::Status::OK;
  };
  this->Start();
  EXPECT_EQ(this->Charge(context, kKey).status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(this->store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->book_.runs, 1);
}

// gRPC may give the next call a context at the same address while the interceptor still exists.
TYPED_TEST(ServerGuardTest, CallWhoseReplyIsSentIsNoLongerFoundByItsContext) {
  std::atomic<int> looks{0};
  std::atomic<int> found{0};
  ServerGuard::InterceptorFactories others;
  others.push_back(std::make_unique<LateLookFactory>(looks, found));
  this->book_.handler = [](grpc::ServerContextBase* context, const auto&, auto*) {
    EXPECT_NE(Execution::FromContext(context), nullptr);
    return grpc::Status::OK;
  };
  this->Start(std::move(others));
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_TRUE(this->Charge(kKey).status.ok()) << "a replay";
  EXPECT_FALSE(this->Charge(std::nullopt).status.ok()) << "a call without an execution";
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(found, 0);
}

TYPED_TEST(ServerGuardTest, DeterministicErrorIsReplayedWithItsDetails) {
  this->book_.handler = [](auto* context, const auto&, auto*) {
    context->AddTrailingMetadata("x-why", "funds");
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no funds", "details");
  };
  this->Start();
  const Outcome first = this->Charge(kKey);
  const Outcome again = this->Charge(kKey);
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  this->ExpectSame(first, again);
  EXPECT_THAT(again.initial, IsEmpty());
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, WhereItMayRunAgainAnIndefiniteErrorIsReleasedWithAPause) {
  this->book_.handler = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "bank is away");
  };
  this->Start();
  const Outcome first = this->Charge(kKey);
  EXPECT_EQ(first.status.error_message(), "bank is away");
  EXPECT_THAT(first.trailing, testing::Contains(Pair("idempotency-record", testing::_)));
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(this->store_->record().release_reason, "the handler answered UNAVAILABLE");
  EXPECT_EQ(this->store_->record().release_pause, absl::Seconds(1)) << "never at once";
  this->Charge(kKey);
  EXPECT_EQ(this->store_->record().release_pause, absl::Seconds(4)) << "grows with the attempt";
  EXPECT_EQ(this->book_.runs, 2);
  EXPECT_EQ(this->store_->record().attempt, 2u);
}

TYPED_TEST(ServerGuardTest, AStatusOfAnotherGuardIsNotTheOutcome) {
  this->book_.handler = [](auto*, const auto&, auto*) {
    return ToGrpcStatus(MakeError(Reason::kOutcomeUnknown, "of the payment"));
  };
  this->Start();
  EXPECT_EQ(this->Charge(kKey).reason(), Reason::kOutcomeUnknown);
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(this->store_->calls(Operation::kComplete), 0);
}

TYPED_TEST(ServerGuardTest, HandlerThatThrowsIsNeverRecorded) {
  this->book_.handler = [](auto*, const auto&, auto*) -> grpc::Status {
    throw std::runtime_error("thrown on purpose");
  };
  this->Start();
  EXPECT_FALSE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(this->store_->record().release_pause, absl::Seconds(1));
  EXPECT_THAT(this->store_->record().release_reason, HasSubstr(", or threw"));
}

TYPED_TEST(ServerGuardTest, CancelledIsLeftToTheLease) {
  this->book_.handler = [](auto*, const auto&, auto*) { return grpc::Status::CANCELLED; };
  this->Start();
  EXPECT_EQ(this->Charge(kKey).status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_RESERVED);
  EXPECT_EQ(this->store_->calls(Operation::kRelease), 0);
}

TYPED_TEST(ServerGuardTest, RecoveryPolicyTurnsAnIndefiniteErrorIntoUnknown) {
  MethodPolicy policy;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "who knows");
  };
  this->Start();
  EXPECT_EQ(this->Charge(kKey).status.error_message(), "who knows");
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_UNKNOWN);
  const Outcome again = this->Charge(kKey);
  EXPECT_EQ(again.reason(), Reason::kOutcomeUnknown);
  EXPECT_THAT(again.status.error_message(), HasSubstr("the handler answered INTERNAL"));
  EXPECT_THAT(again.trailing, testing::Contains(Pair("grpc-retry-pushback-ms", "-1")));
  EXPECT_THAT(again.initial, IsEmpty());
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, NothingHappenedMakesAReleaseDefinite) {
  MethodPolicy policy;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [](grpc::ServerContextBase* context, const auto&, auto*) {
    Execution* execution = Execution::FromContext(context);
    EXPECT_NE(execution, nullptr);
    EXPECT_EQ(execution->attempt(), 1u);
    EXPECT_FALSE(execution->record_id().empty());
    EXPECT_FALSE(execution->lost());
    execution->MarkNoEffect();
    return grpc::Status(grpc::StatusCode::CANCELLED, "no");
  };
  this->Start();
  this->Charge(kKey);
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_RELEASED);
}

TYPED_TEST(ServerGuardTest, ConcurrentDuplicateIsRefusedWithAWait) {
  std::promise<void> entered;
  std::promise<void> leave;
  this->book_.handler = [&](auto*, const auto&, auto*) {
    entered.set_value();
    leave.get_future().wait_for(std::chrono::seconds(10));
    return grpc::Status::OK;
  };
  this->Start();
  auto first = std::async(std::launch::async, [&] { return this->Charge(kKey); });
  ASSERT_EQ(entered.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  const Outcome second = this->Charge(kKey);
  EXPECT_EQ(second.reason(), Reason::kInFlight);
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(second.trailing, testing::Contains(Pair("grpc-retry-pushback-ms", "5")));
  EXPECT_THAT(second.initial, IsEmpty());
  leave.set_value();
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, SameKeyWithAnotherRequestIsRefused) {
  this->Start();
  this->Charge(kKey, 100);
  const Outcome other = this->Charge(kKey, 200);
  EXPECT_EQ(other.reason(), Reason::kKeyReused);
  EXPECT_THAT(other.trailing, testing::Contains(Pair("idempotency-record", testing::_)));
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, StoreThatIsAwayFailsClosed) {
  this->options_.verdict_timeout = absl::Milliseconds(100);
  this->Start();
  this->store_->Fail(Operation::kReserve, MakeError(Reason::kStoreUnavailable, "away"), 1000);
  const Outcome outcome = this->Charge(kKey);
  EXPECT_EQ(outcome.reason(), Reason::kStoreUnavailable);
  EXPECT_THAT(outcome.trailing, testing::Contains(Pair("grpc-retry-pushback-ms", testing::_)));
  EXPECT_EQ(this->book_.runs, 0);
}

TYPED_TEST(ServerGuardTest, UnrecordedReplyIsWithheldAndRecordedLater) {
  this->options_.recording_timeout = absl::Milliseconds(50);
  this->Start();
  this->store_->Hold(Operation::kComplete);
  const Outcome first = this->Charge(kKey);
  EXPECT_EQ(first.reason(), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(first.body, IsEmpty());
  EXPECT_THAT(first.initial, IsEmpty());
  EXPECT_THAT(first.own_trailing(), IsEmpty());
  this->store_->AnswerHeld(Operation::kComplete);
  ASSERT_TRUE(this->store_->WaitForState(v1::RECORD_STATE_COMPLETED));
  const Outcome again = this->Charge(kKey);
  EXPECT_TRUE(again.status.ok());
  ChargeReply reply;
  EXPECT_TRUE(reply.ParseFromString(again.body));
  EXPECT_EQ(reply.charge_id(), "ch_1");
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, GrpcsOwnRetryFetchesAReplyThatWasRecordedLate) {
  this->options_.recording_timeout = absl::Milliseconds(20);
  this->Start();
  this->RetryWithGrpc();
  this->store_->Fail(Operation::kComplete, MakeError(Reason::kStoreUnavailable, "away"), 2);
  const Outcome outcome = this->Charge(kKey);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_THAT(outcome.trailing, testing::Contains(Pair("idempotency-replayed", "true")));
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, ReplyOfAnAttemptThatLostItsReservationIsNotSent) {
  this->book_.handler = [this](auto*, const auto&, ChargeReply* reply) {
    this->store_->TakeOver();
    reply->set_charge_id("late");
    return grpc::Status::OK;
  };
  this->Start();
  const Outcome outcome = this->Charge(kKey);
  EXPECT_EQ(outcome.reason(), Reason::kReservationLost);
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(outcome.body, IsEmpty());
  EXPECT_THAT(outcome.initial, IsEmpty());
}

// Nobody took over: a retry would run it again, and nothing can contradict the reply.
TYPED_TEST(ServerGuardTest, WithoutARecordAnyMoreTheReplyIsSentAndTheCallIsNotRunAgain) {
  this->book_.handler = [this](auto*, const auto&, ChargeReply* reply) {
    this->store_->LoseRecord();
    reply->set_charge_id("ch_1");
    return grpc::Status::OK;
  };
  this->Start();
  this->RetryWithGrpc();
  const Outcome outcome = this->Charge(kKey);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(this->book_.runs, 1);
  ChargeReply reply;
  EXPECT_TRUE(reply.ParseFromString(outcome.body));
  EXPECT_EQ(reply.charge_id(), "ch_1");
  EXPECT_THAT(outcome.trailing, UnorderedElementsAre(Pair("idempotency-record", testing::_)));
}

TYPED_TEST(ServerGuardTest, WithoutARecordAnyMoreAFinalFailureIsSentAndNotRetried) {
  this->options_.methods[kCharge].policy.emplace().recorded = {grpc::StatusCode::ABORTED};
  this->book_.handler = [this](grpc::ServerContextBase* context, const auto&, auto*) {
    this->store_->LoseRecord();
    context->AddTrailingMetadata("grpc-retry-pushback-ms", "1");
    return grpc::Status(grpc::StatusCode::ABORTED, "declined");
  };
  this->Start();
  this->RetryWithGrpc();
  const Outcome outcome = this->Charge(kKey);
  EXPECT_EQ(outcome.status.error_message(), "declined");
  EXPECT_EQ(this->book_.runs, 1);
  EXPECT_EQ(outcome.trailing.count("idempotency-expires"), 0u);
}

TYPED_TEST(ServerGuardTest, WithoutARecordAnyMoreAFailureIsNotRetried) {
  this->book_.handler = [this](auto*, const auto&, auto*) {
    this->store_->LoseRecord();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "charged, or not");
  };
  this->Start();
  this->RetryWithGrpc();
  const Outcome outcome = this->Charge(kKey);
  EXPECT_EQ(outcome.reason(), Reason::kReservationLost);
  EXPECT_THAT(outcome.status.error_message(), HasSubstr("would run it again"));
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, WithoutARecordAnyMoreWhatDidNothingMayRunAgain) {
  this->book_.handler = [this](grpc::ServerContextBase* context, const auto&, auto*) {
    if (this->book_.runs > 1) return grpc::Status::OK;
    this->store_->LoseRecord();
    Execution::FromContext(context)->MarkNoEffect();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy");
  };
  this->Start();
  this->RetryWithGrpc();
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->book_.runs, 2);
}

TYPED_TEST(ServerGuardTest, WithoutARecordAnyMoreAHeldBackStreamIsSent) {
  MethodPolicy policy;
  policy.key = MethodPolicy::Key::kRequired;
  policy.stream = MethodPolicy::Stream::kHoldBack;
  this->options_.methods[kWatch].policy = policy;
  this->Start();
  ErrorDetails details;
  details.metadata["cause"] = "RECORD_EXPIRED";
  this->store_->Fail(Operation::kComplete, MakeError(Reason::kReservationLost, "gone", details), 1);
  const auto stub = Till::NewStub(this->channel_);
  grpc::ClientContext context;
  context.AddMetadata(std::string(kKeyMetadata), kKey);
  BalanceReply reply;
  const auto reader = stub->Watch(&context, BalanceRequest());
  EXPECT_TRUE(reader->Read(&reply));
  EXPECT_FALSE(reader->Read(&reply));
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TYPED_TEST(ServerGuardTest, WithoutARecordAnyMoreAHeldBackStreamOverTheLimitIsNotRetried) {
  MethodPolicy policy;
  policy.key = MethodPolicy::Key::kRequired;
  policy.stream = MethodPolicy::Stream::kHoldBack;
  policy.stream_limit_bytes = 1;
  this->options_.methods[kWatch].policy = policy;
  this->Start();
  ErrorDetails details;
  details.metadata["cause"] = "RECORD_EXPIRED";
  this->store_->Fail(Operation::kComplete, MakeError(Reason::kReservationLost, "gone", details), 1);
  const auto stub = Till::NewStub(this->channel_);
  grpc::ClientContext context;
  context.AddMetadata(std::string(kKeyMetadata), kKey);
  BalanceReply reply;
  const auto reader = stub->Watch(&context, BalanceRequest());
  while (reader->Read(&reply)) {
  }
  EXPECT_EQ(ReasonOf(FromGrpcStatus(reader->Finish())), Reason::kReplyNotKept);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_EQ(pushback->second, "-1");
}

TYPED_TEST(ServerGuardTest, ARetentionThatAHandlerMayOutliveIsReportedAtTheStart) {
  std::vector<std::string> warnings;
  this->options_.log = [&warnings](LogSeverity severity, std::string_view line) {
    if (severity == LogSeverity::kWarning) warnings.emplace_back(line);
  };
  MethodPolicy policy;
  policy.retention = absl::Minutes(1);
  this->options_.methods[kCharge].policy = policy;
  this->Start();
  EXPECT_THAT(warnings, testing::ElementsAre(HasSubstr("max_lease 1h is over the retention 1m")));
}

TYPED_TEST(ServerGuardTest, ReplyOverTheLimitIsSentButNotKept) {
  this->options_.max_reply_bytes = 1000;
  this->book_.handler = [](auto*, const auto&, ChargeReply* reply) {
    reply->set_receipt(std::string(2000, 'r'));
    return grpc::Status::OK;
  };
  this->Start();
  const Outcome first = this->Charge(kKey);
  EXPECT_TRUE(first.status.ok());
  EXPECT_GT(first.body.size(), 2000u);
  const Outcome again = this->Charge(kKey);
  EXPECT_EQ(again.reason(), Reason::kReplyNotKept);
  EXPECT_EQ(DetailsOf(FromGrpcStatus(again.status)).metadata["original_code"], "0");
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, LostReplyHasARetryDelayForGrpcsRetries) {
  this->book_.handler = [this](auto*, const auto&, auto*) {
    this->store_->TakeOver();
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "nothing happened, or did it");
  };
  this->Start();
  const Outcome outcome = this->Charge(kKey);
  EXPECT_EQ(outcome.reason(), Reason::kReservationLost);
  EXPECT_THAT(outcome.trailing, testing::Contains(Pair("grpc-retry-pushback-ms", testing::_)));
}

TYPED_TEST(ServerGuardTest, ReleasedCodeMeansNoEffectAlsoUnderRequireRecovery) {
  MethodPolicy policy;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  policy.released = {grpc::StatusCode::RESOURCE_EXHAUSTED};
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "come back later");
  };
  this->Start();
  EXPECT_EQ(this->Charge(kKey).status.error_message(), "come back later");
  EXPECT_EQ(this->store_->record().state, v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(this->Charge(kKey).status.error_message(), "come back later");
  EXPECT_EQ(this->book_.runs, 2);
}

TYPED_TEST(ServerGuardTest, FailOpenRunsUnguardedOnlyWhenNoVerdictCanBeHad) {
  MethodPolicy policy;
  policy.fail_open = true;
  this->options_.methods[kCharge].policy = policy;
  this->options_.verdict_timeout = absl::Milliseconds(100);
  this->book_.handler = [](grpc::ServerContextBase* context, const auto&, ChargeReply* reply) {
    reply->set_charge_id(Execution::FromContext(context) == nullptr ? "unguarded" : "guarded");
    return grpc::Status::OK;
  };
  this->Start();
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->Charge(kKey, 200).reason(), Reason::kKeyReused);
  EXPECT_EQ(this->guard_->calls_failed_open(), 0u);

  this->store_->Fail(Operation::kReserve, MakeError(Reason::kStoreUnavailable, "away"), 1000);
  const Outcome outcome = this->Charge("order-2");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  ChargeReply reply;
  ASSERT_TRUE(reply.ParseFromString(outcome.body));
  EXPECT_EQ(reply.charge_id(), "unguarded");
  EXPECT_THAT(outcome.trailing, IsEmpty());
  EXPECT_EQ(this->guard_->calls_failed_open(), 1u);
  EXPECT_EQ(this->store_->calls(Operation::kComplete), 1);
  EXPECT_EQ(this->book_.runs, 2);
  // A guard that closes is not an unavailable store.
  this->guard_->Close();
  EXPECT_EQ(this->Charge("order-3").reason(), Reason::kStoreUnavailable);
  EXPECT_EQ(this->book_.runs, 2);
}

// Its reservation may be granted meanwhile: what the call did must not run again as if nothing had
// happened.
TYPED_TEST(ServerGuardTest, AGrantThatFollowsAnUnguardedRunEndsWithItsLease) {
  MethodPolicy policy;
  policy.fail_open = true;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  this->options_.methods[kCharge].policy = policy;
  this->options_.verdict_timeout = absl::Milliseconds(100);
  this->Start();
  this->store_->Hold(Operation::kReserve);
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->guard_->calls_failed_open(), 1u);
  this->store_->AnswerHeld(Operation::kReserve);
  EXPECT_TRUE(this->store_->WaitForState(v1::RECORD_STATE_RESERVED));
  // Its handler may still run.
  EXPECT_EQ(this->Charge(kKey).reason(), Reason::kInFlight);
  EXPECT_EQ(this->book_.runs, 1);
  EXPECT_EQ(this->store_->calls(Operation::kRelease), 0);
}

// It waits for an attempt that may still run.
TYPED_TEST(ServerGuardTest, CallersDeadlineDuringTheWaitDoesNotFailOpen) {
  MethodPolicy policy;
  policy.fail_open = true;
  policy.in_flight = MethodPolicy::InFlight::kWait;
  policy.max_wait = absl::Seconds(20);
  this->options_.methods[kCharge].policy = policy;
  std::promise<VerdictEvent::Verdict> ended;
  this->options_.hooks.on_verdict = [&](const VerdictEvent& event) {
    ended.set_value(event.verdict);
  };
  this->Start();
  this->store_->Hold(Operation::kReserve);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  EXPECT_FALSE(this->Charge(context, kKey).status.ok());
  EXPECT_EQ(ended.get_future().get(), VerdictEvent::Verdict::kNone);
  // Every handler has ended after it.
  this->server_->Shutdown();
  EXPECT_EQ(this->guard_->calls_failed_open(), 0u);
  EXPECT_EQ(this->book_.runs, 0);
}

TYPED_TEST(ServerGuardTest, RefusalOfTheStoreDoesNotFailOpen) {
  MethodPolicy policy;
  policy.fail_open = true;
  this->options_.methods[kCharge].policy = policy;
  this->Start();
  std::vector<absl::Status> answers;
  for (const Reason reason : AllReasons()) answers.push_back(MakeError(reason, "no"));
  for (int code = 1; code <= 16; ++code) {
    answers.emplace_back(static_cast<absl::StatusCode>(code), "no");
  }
  int reserves = 0;
  for (const absl::Status& answer : answers) {
    if (KindOfAnswer(answer) == AnswerKind::kNone) continue;
    this->store_->Fail(Operation::kReserve, answer, 1);
    const Outcome outcome = this->Charge(kKey);
    EXPECT_FALSE(outcome.status.ok()) << answer;
    // A refusal of the guard itself does not concern its callers, and is temporary.
    const Reason expected = RefusesCaller(answer)
                                ? Reason::kStoreUnavailable
                                : ReasonOf(answer).value_or(Reason::kStoreUnavailable);
    EXPECT_EQ(outcome.reason(), expected) << answer;
    if (expected == Reason::kStoreUnavailable) {
      EXPECT_EQ(outcome.trailing.count("grpc-retry-pushback-ms"), 1u) << answer;
    }
    EXPECT_EQ(this->store_->calls(Operation::kReserve), ++reserves)
        << "sent again after " << answer;
  }
  EXPECT_GT(reserves, 20);
  EXPECT_EQ(this->guard_->calls_failed_open(), 0u);
  EXPECT_EQ(this->book_.runs, 0);
}

TYPED_TEST(ServerGuardTest, HandlerSeesTheCheckpointAndTheLabelsOfItsRecord) {
  std::vector<std::string> seen;
  this->book_.handler = [&seen](grpc::ServerContextBase* context, const auto&, auto*) {
    Execution* execution = Execution::FromContext(context);
    seen.push_back(execution->checkpoint());
    EXPECT_TRUE(execution->labels().empty());
    EXPECT_TRUE(execution->Checkpoint("half").ok());
    std::promise<absl::Status> stored;
    execution->Checkpoint("more", [&stored](absl::Status status) { stored.set_value(status); });
    EXPECT_TRUE(stored.get_future().get().ok());
    EXPECT_EQ(execution->checkpoint(), seen.back());
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "half done");
  };
  this->Start();
  this->Charge(kKey);
  this->Charge(kKey);
  EXPECT_THAT(seen, testing::ElementsAre("", "more"));
}

// gRPC's clients leave the details in the trailers, which a handler may forward.
TYPED_TEST(ServerGuardTest, DetailsInTheTrailersAreTheReplysDetails) {
  const std::string details =
      grpc::Status(ToGrpcStatus(MakeError(Reason::kKeyExpired, "of another guard")))
          .error_details();
  this->book_.handler = [&](grpc::ServerContextBase* context, const auto&, auto*) {
    context->AddTrailingMetadata("grpc-status-details-bin", details);
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "passed on");
  };
  this->Start();
  EXPECT_EQ(this->Charge(kKey).status.error_details(), details);
  EXPECT_NE(this->store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TYPED_TEST(ServerGuardTest, DetailsThatAreSentTwiceAreReplayedOnce) {
  const std::string details = "\x08\x09";
  this->book_.handler = [&](grpc::ServerContextBase* context, const auto&, auto*) {
    context->AddTrailingMetadata("grpc-status-details-bin", details);
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "passed on", details);
  };
  this->Start();
  const Outcome first = this->Charge(kKey);
  EXPECT_EQ(first.status.error_details(), details);
  this->ExpectSame(first, this->Charge(kKey));
  EXPECT_EQ(this->book_.runs, 1);
  EXPECT_EQ(this->store_->record().reply.details(), details);
  EXPECT_EQ(this->store_->record().reply.trailing_metadata_size(), 0);
}

TYPED_TEST(ServerGuardTest, CallIsCancelledOnceItsExecutionIsLost) {
  MethodPolicy policy;
  policy.lease = absl::Milliseconds(100);
  policy.cancel_when_lost = true;
  this->options_.methods[kCharge].policy = policy;
  // The client gets the status before the handler has answered.
  std::promise<bool> lost;
  this->book_.handler = [&](grpc::ServerContextBase* context, const auto&, ChargeReply* reply) {
    this->store_->TakeOver();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    // In the callback API this handler is its reactor's: it gets no notification before it has
    // returned.
    const auto stopped = [&] {
      return TypeParam::kSync ? context->IsCancelled() : Execution::FromContext(context)->lost();
    };
    while (!stopped() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    lost.set_value(stopped());
    reply->set_charge_id("too late");
    return grpc::Status::OK;
  };
  this->Start();
  const Outcome outcome = this->Charge(kKey);
  EXPECT_TRUE(lost.get_future().get());
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_TRUE(!TypeParam::kSync || outcome.status.error_code() == grpc::StatusCode::CANCELLED)
      << outcome.status.error_code();
}

// An interceptor of the application's that blocks while a call is cancelled.
struct Turnstile {
  std::promise<void> entered;
  std::promise<void> opened;
};

class Blocking final : public grpc::experimental::Interceptor {
 public:
  explicit Blocking(Turnstile& turnstile) : turnstile_(turnstile) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_CANCEL)) {
      turnstile_.entered.set_value();
      turnstile_.opened.get_future().wait();
    }
    batch->Proceed();
  }

 private:
  Turnstile& turnstile_;
};

class BlockingFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit BlockingFactory(Turnstile& turnstile) : turnstile_(turnstile) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return std::make_unique<Blocking>(turnstile_).release();
  }

 private:
  Turnstile& turnstile_;
};

TYPED_TEST(ServerGuardTest, AnInterceptorThatBlocksACancellationStopsNoHeartbeats) {
  MethodPolicy policy;
  policy.lease = absl::Milliseconds(100);
  policy.cancel_when_lost = true;
  this->options_.methods[kCharge].policy = policy;
  Turnstile turnstile;
  bool extended = false;
  this->book_.handler = [&](auto*, const auto&, auto*) {
    this->store_->TakeOver();
    EXPECT_EQ(turnstile.entered.get_future().wait_for(std::chrono::seconds(10)),
              std::future_status::ready);
    BeginCall other{"till.close", "shop-1", "day-1"};
    other.policy.lease = absl::Milliseconds(100);
    auto begun = this->guard_->Begin(other, BalanceRequest());
    const int before = this->store_->calls(Operation::kExtend);
    extended = this->store_->WaitForCalls(Operation::kExtend, before + 1);
    turnstile.opened.set_value();
    EXPECT_TRUE(begun.ok() && begun->Release("done").ok());
    return grpc::Status::OK;
  };
  ServerGuard::InterceptorFactories others;
  others.push_back(std::make_unique<BlockingFactory>(turnstile));
  this->Start(std::move(others));
  EXPECT_FALSE(this->Charge(kKey).status.ok());
  EXPECT_TRUE(extended);
}

// Blocks the first reply.
class BlockingReply final : public grpc::experimental::Interceptor {
 public:
  BlockingReply(Turnstile& reply, std::atomic<bool>& is_first, std::promise<void>& cancelled)
      : reply_(reply), is_first_(is_first), cancelled_(cancelled) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_CANCEL)) {
      cancelled_.set_value();
    }
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS) &&
        is_first_.exchange(false)) {
      reply_.entered.set_value();
      reply_.opened.get_future().wait();
    }
    batch->Proceed();
  }

 private:
  Turnstile& reply_;
  std::atomic<bool>& is_first_;
  std::promise<void>& cancelled_;
};

class BlockingReplyFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  BlockingReplyFactory(Turnstile& reply, std::promise<void>& cancelled)
      : reply_(reply), cancelled_(cancelled) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return std::make_unique<BlockingReply>(reply_, is_first_, cancelled_).release();
  }

 private:
  Turnstile& reply_;
  std::promise<void>& cancelled_;
  std::atomic<bool> is_first_{true};
};

TYPED_TEST(ServerGuardTest, RepliesThatInterceptorsBlockDelayNoCancellation) {
  MethodPolicy policy;
  policy.lease = absl::Milliseconds(100);
  policy.cancel_when_lost = true;
  this->options_.methods[kCharge].policy = policy;
  this->options_.threads.replies = 1;
  Turnstile reply;
  std::promise<void> cancelled;
  ServerGuard::InterceptorFactories others;
  others.push_back(std::make_unique<BlockingReplyFactory>(reply, cancelled));
  this->Start(std::move(others));
  std::thread first([this] { EXPECT_TRUE(this->Charge("blocked").status.ok()); });
  reply.entered.get_future().wait();
  this->book_.handler = [&](auto*, const auto&, auto*) {
    this->store_->TakeOver();
    EXPECT_EQ(cancelled.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
    return grpc::Status::OK;
  };
  EXPECT_FALSE(this->Charge(kKey).status.ok());
  reply.opened.set_value();
  first.join();
}

TYPED_TEST(ServerGuardTest, RecoveryHandlerDecidesInsteadOfTheHandler) {
  MethodPolicy policy;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  this->options_.methods[kCharge].policy = policy;
  this->options_.methods[kCharge].recovery = TypedRecovery<ChargeRequest, ChargeReply>(
      [](const RecoveryCase& recovery, const ChargeRequest* request) {
        ChargeReply reply;
        reply.set_charge_id("found for " + request->account());
        EXPECT_EQ(recovery.attempt, 2u);
        return TypedRecoveryDecision<ChargeReply>::CompleteWith(reply);
      });
  this->book_.handler = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "who knows");
  };
  this->Start();
  EXPECT_EQ(this->Charge(kKey).status.error_message(), "who knows");
  const Outcome recovered = this->Charge(kKey);
  ASSERT_TRUE(recovered.status.ok()) << recovered.status.error_message();
  ChargeReply reply;
  EXPECT_TRUE(reply.ParseFromString(recovered.body));
  EXPECT_EQ(reply.charge_id(), "found for alice");
  this->ExpectSame(recovered, this->Charge(kKey));
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, UnguardedMethodsNeedNoKey) {
  this->Start();
  const auto stub = Till::NewStub(this->channel_);
  grpc::ClientContext unary;
  BalanceReply reply;
  EXPECT_TRUE(stub->Balance(&unary, BalanceRequest(), &reply).ok());
  EXPECT_EQ(reply.amount_cents(), 7);
  grpc::ClientContext streaming;
  const auto reader = stub->Watch(&streaming, BalanceRequest());
  EXPECT_TRUE(reader->Read(&reply));
  EXPECT_FALSE(reader->Read(&reply));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(this->store_->calls(Operation::kReserve), 0);
}

TYPED_TEST(ServerGuardTest, OptionalKeyGuardsOnlyCallsThatBringOne) {
  MethodPolicy policy;
  policy.key = MethodPolicy::Key::kOptional;
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [](grpc::ServerContextBase* context, const auto&, auto*) {
    return Execution::FromContext(context) == nullptr
               ? grpc::Status(grpc::StatusCode::NOT_FOUND, "unguarded")
               : grpc::Status::OK;
  };
  this->Start();
  EXPECT_EQ(this->Charge(std::nullopt).status.error_message(), "unguarded");
  EXPECT_EQ(this->Charge(std::nullopt).status.error_message(), "unguarded");
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->book_.runs, 3);
}

// Nothing would stop a second effect.
TYPED_TEST(ServerGuardTest, GrpcDoesNotRetryAFailureOfACallWithoutAKey) {
  MethodPolicy policy;
  policy.key = MethodPolicy::Key::kOptional;
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [](grpc::ServerContextBase* context, const auto&, auto*) {
    // As a handler does that forwards the trailers of another service.
    context->AddTrailingMetadata("grpc-retry-pushback-ms", "1");
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "charged, or not");
  };
  this->Start();
  this->RetryWithGrpc();
  EXPECT_EQ(this->Charge(std::nullopt).status.error_message(), "charged, or not");
  EXPECT_EQ(this->book_.runs, 1);
}

// By the code the handler reports that nothing happened.
TYPED_TEST(ServerGuardTest, GrpcRetriesACallWithoutAKeyAfterAReleasedCode) {
  MethodPolicy policy;
  policy.key = MethodPolicy::Key::kOptional;
  policy.released = {grpc::StatusCode::ABORTED};
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [this](grpc::ServerContextBase* context, const auto&, auto*) {
    if (this->book_.runs > 1) return grpc::Status::OK;
    context->AddTrailingMetadata("grpc-retry-pushback-ms", "1");
    return grpc::Status(grpc::StatusCode::ABORTED, "busy");
  };
  this->Start();
  this->RetryWithGrpc();
  EXPECT_TRUE(this->Charge(std::nullopt).status.ok());
  EXPECT_EQ(this->book_.runs, 2);
}

// Another guard's, which the handler passes on.
TYPED_TEST(ServerGuardTest, GrpcDoesNotRetryACallWithoutAKeyAfterAReleasedCodeOfACallee) {
  MethodPolicy policy;
  policy.key = MethodPolicy::Key::kOptional;
  policy.released = {grpc::StatusCode::ABORTED};
  this->options_.methods[kCharge].policy = policy;
  this->book_.handler = [](auto*, const auto&, auto*) {
    return ToGrpcStatus(MakeError(Reason::kInFlight, "of a callee"));
  };
  this->Start();
  this->RetryWithGrpc();
  EXPECT_EQ(this->Charge(std::nullopt).status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, GrpcRetriesACallThatRanUnguardedAfterAReleasedCode) {
  MethodPolicy policy;
  policy.fail_open = true;
  policy.released = {grpc::StatusCode::ABORTED};
  this->options_.methods[kCharge].policy = policy;
  this->options_.verdict_timeout = absl::Milliseconds(100);
  this->book_.handler = [this](auto*, const auto&, auto*) {
    return this->book_.runs > 1 ? grpc::Status::OK
                                : grpc::Status(grpc::StatusCode::ABORTED, "busy");
  };
  this->Start();
  this->RetryWithGrpc();
  this->store_->Fail(Operation::kReserve, MakeError(Reason::kStoreUnavailable, "away"), 1000);
  EXPECT_TRUE(this->Charge(kKey).status.ok());
  EXPECT_EQ(this->book_.runs, 2);
}

TYPED_TEST(ServerGuardTest, GrpcDoesNotRetryAFailureOfACallThatRanUnguarded) {
  MethodPolicy policy;
  policy.fail_open = true;
  this->options_.methods[kCharge].policy = policy;
  this->options_.verdict_timeout = absl::Milliseconds(100);
  this->book_.handler = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "charged, or not");
  };
  this->Start();
  this->RetryWithGrpc();
  this->store_->Fail(Operation::kReserve, MakeError(Reason::kStoreUnavailable, "away"), 1000);
  EXPECT_EQ(this->Charge(kKey).status.error_message(), "charged, or not");
  EXPECT_EQ(this->book_.runs, 1);
}

TYPED_TEST(ServerGuardTest, MissingInterceptorFailsTheCallBeforeTheHandler) {
  this->Start({}, /*replace_interceptors=*/true);
  EXPECT_EQ(this->Charge(kKey).status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(this->book_.runs, 0);
  EXPECT_EQ(this->store_->calls(Operation::kReserve), 0);
}

TYPED_TEST(ServerGuardTest, OtherInterceptorsSeeTheRealMessageAndAreNotRecorded) {
  ServerGuard::InterceptorFactories others;
  others.push_back(std::make_unique<WitnessFactory>(this->witnessed_));
  this->Start(std::move(others));
  const Outcome first = this->Charge(kKey);
  const Outcome again = this->Charge(kKey);
  this->ExpectSame(first, again);
  EXPECT_EQ(again.trailing.count("x-witness"), 1u);
  EXPECT_EQ(this->witnessed_, 2);
}

TYPED_TEST(ServerGuardTest, CloseFailsCallsThatWaitAndRefusesNewOnes) {
  this->Start();
  this->store_->Hold(Operation::kReserve);
  auto waiting = std::async(std::launch::async, [&] { return this->Charge(kKey); });
  ASSERT_TRUE(this->store_->WaitForCalls(Operation::kReserve, 1));
  this->guard_->Close();
  EXPECT_EQ(waiting.get().reason(), Reason::kStoreUnavailable);
  EXPECT_EQ(this->Charge("order-2").reason(), Reason::kStoreUnavailable);
  this->store_->AnswerHeld(Operation::kReserve);
  EXPECT_TRUE(this->store_->WaitForState(v1::RECORD_STATE_RELEASED));
  EXPECT_EQ(this->book_.runs, 0);
}

TYPED_TEST(ServerGuardTest, CallerWithoutAnIdentityIsRefusedByDefault) {
  this->options_.scope = nullptr;
  this->Start();
  EXPECT_EQ(this->Charge(kKey).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(this->book_.runs, 0);
}

TYPED_TEST(ServerGuardTest, CallsLeaveNothingBehind) {
  this->Start();
  this->Charge(kKey);
  this->Charge(kKey);
  this->Charge(std::nullopt);
  this->guard_->Close();
  this->server_->Shutdown();
  this->server_ = nullptr;
  EXPECT_EQ(GuardedCallTable::Instance().size(), 0u);
}

}  // namespace
}  // namespace idempotency::internal
