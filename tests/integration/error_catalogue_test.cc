// Every reason of the error catalogue, provoked at a real guarded server or idempotencyd, and read
// as any client would: google.rpc.ErrorInfo, the status code, and for errors with a delay
// google.rpc.RetryInfo and gRPC's own trailer. The list is the catalogue's: a reason without a case
// here fails the test.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "idempotency/wire/rpc_status.pb.h"
#include "tests/integration/memory_service.h"
#include "tests/support/daemon_process.h"
#include "tests/support/gate.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using grpc::StatusCode;
using Stub = v1::IdempotencyService::Stub;

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr char kKey[] = "order-1";

// The row of the table in docs/errors.md.
struct Row {
  StatusCode code;
  bool has_wait = false;
};

// The content of the details, by their type's URL.
struct Details {
  std::map<std::string, std::string> by_type;

  static Details Of(const grpc::Status& status) {
    Details details;
    wire::Status parsed;
    EXPECT_TRUE(parsed.ParseFromString(status.error_details()));
    EXPECT_EQ(parsed.code(), static_cast<int>(status.error_code()));
    EXPECT_EQ(parsed.message(), status.error_message());
    for (const google::protobuf::Any& any : parsed.details()) {
      details.by_type[any.type_url()] = any.value();
    }
    return details;
  }
  template <typename Detail>
  std::optional<Detail> Get(const std::string& name) const {
    const auto found = by_type.find("type.googleapis.com/google.rpc." + name);
    Detail detail;
    if (found == by_type.end() || !detail.ParseFromString(found->second)) return std::nullopt;
    return detail;
  }
};

grpc::Status Done(grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
  reply.set_effect("done");
  return grpc::Status::OK;
}

// The servers for a failing call.
class ErrorStack : public ::testing::Test {
 protected:
  struct Producer {
    Row row;
    Outcome (ErrorStack::*call)();
  };
  static const std::map<Reason, Producer>& Producers();

  // Each makes one call that fails with the reason of its name, and returns its result.
  Outcome KeyMissing();
  Outcome KeyInvalid();
  Outcome KeyReused();
  Outcome KeyExpired();
  Outcome InFlight();
  Outcome OutcomeUnknown();
  Outcome ReservationLost();
  Outcome OutcomeNotRecorded();
  Outcome ReplyNotKept();
  Outcome StoreUnavailable();
  Outcome QuotaExceeded();
  Outcome Overloaded();
  Outcome RequestInvalid();
  Outcome FingerprintUnknown();
  Outcome RecordNotFound();
  Outcome RecordDamaged();
  Outcome RecordIdCollision();
  Outcome RecordChanged();
  Outcome ForceRequired();
  Outcome DownstreamRefused();
  Outcome CredentialsInvalid();
  Outcome AccessDenied();

  // A reservation at a service with these rules.
  Outcome CallRestricted(const AccessRules& rules) {
    AccessControl access;
    access.Restrict(std::make_shared<AccessPolicy>(rules), Clock::System());
    MemoryService restricted(limits::kMaxQueuedOperations, &access);
    return CallDaemon(restricted.channel(), &Stub::Reserve, SomeReserve(kKey));
  }

  // A guarded server over the service in this process.
  ProbeServer& Serve(const ProbeHandler& handler = Done,
                     const std::function<void(ProbeServer::Options&)>& change = nullptr) {
    ProbeServer::Options options;
    options.channel = service_.channel();
    options.handler = handler;
    if (change) change(options);
    server_ = std::make_unique<ProbeServer>(std::move(options));
    return *server_;
  }
  Outcome Act(const std::string& key = kKey, std::int64_t amount = 1) {
    if (server_ == nullptr) Serve();
    return ProbeClient(server_->address()).Act(key, amount);
  }

  // A real idempotencyd.
  DaemonProcess& Daemon() {
    if (!daemon_.has_value()) daemon_.emplace("sqlite:" + folder_.File("records.db"));
    return *daemon_;
  }
  // A client of the service itself.
  template <typename Request, typename Response>
  Outcome CallDaemon(const std::shared_ptr<grpc::Channel>& channel,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request, Response* response = nullptr) {
    const auto stub = v1::IdempotencyService::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    Response unused;
    Outcome outcome;
    outcome.status =
        (stub.get()->*method)(&context, request, response == nullptr ? &unused : response);
    for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
      outcome.trailing_metadata.emplace(std::string(key.data(), key.size()),
                                        std::string(value.data(), value.size()));
    }
    return outcome;
  }
  // An administrator settles SomeReserve(kKey).
  Outcome Release(std::uint32_t attempt) {
    v1::ResolveRequest request;
    *request.mutable_record_key() = SomeRecordKey(kKey);
    request.set_outcome(v1::RESOLVE_OUTCOME_RELEASED);
    request.set_reason("tried by hand");
    request.set_expected_attempt(attempt);
    grpc::ClientContext context;
    v1::ResolveResponse response;
    Outcome outcome;
    outcome.status = v1::IdempotencyAdminService::NewStub(DaemonChannel())
                         ->Resolve(&context, request, &response);
    for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
      outcome.trailing_metadata.emplace(std::string(key.data(), key.size()),
                                        std::string(value.data(), value.size()));
    }
    return outcome;
  }
  std::shared_ptr<grpc::Channel> DaemonChannel() {
    return grpc::CreateChannel(Daemon().address(), grpc::InsecureChannelCredentials());
  }

  // Act(kKey) in the store, reserved by another server.
  static ReserveOp Reservation() {
    ActRequest request;
    request.set_account("alice");
    request.set_amount(1);
    ReserveOp op;
    op.key = {"probe", "everybody", kAct, kKey};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {FingerprintV1({kAct, request})};
    op.on_lease_expiry = LeaseExpiry::kTakeOver;
    return op;
  }
  Uuid Reserve(const ReserveOp& op) {
    return std::get<Reserved>(service_.store().Reserve({&op, 1}).front().value()).token;
  }

  MemoryService service_;
  std::unique_ptr<ProbeServer> server_;
  TempFolder folder_;
  std::optional<DaemonProcess> daemon_;
};

Outcome ErrorStack::KeyMissing() { return ProbeClient(Serve().address()).Send(Call()); }

Outcome ErrorStack::KeyInvalid() { return Act("two words"); }

Outcome ErrorStack::KeyReused() {
  EXPECT_TRUE(Act(kKey, 1).status.ok());
  return Act(kKey, 2);
}

Outcome ErrorStack::KeyExpired() {
  const absl::Time long_ago = service_.store_clock().Now() - absl::Hours(25);
  return Act(Uuid::TimeOrdered(long_ago).ToString());
}

Outcome ErrorStack::InFlight() {
  Reserve(Reservation());
  return Act();
}

Outcome ErrorStack::OutcomeUnknown() {
  ReserveOp op = Reservation();
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  Reserve(op);
  service_.store_clock().Advance(op.lease);
  return Act();
}

Outcome ErrorStack::ReservationLost() {
  Gate gate;
  Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    if (Execution::FromContext(&context)->attempt() == 1) gate.Enter();
    return grpc::Status::OK;
  });
  auto slow = std::async(std::launch::async, [&] { return Act(); });
  EXPECT_TRUE(gate.AwaitInside(1));
  service_.store_clock().Advance(limits::kDefaultLease);
  EXPECT_TRUE(Act().status.ok());
  gate.Open();
  return slow.get();
}

Outcome ErrorStack::OutcomeNotRecorded() {
  service_.gate().Fail(OperationKind::kComplete, Reason::kStoreUnavailable);
  Serve(Done, [](ProbeServer::Options& options) {
    options.guard.recording_timeout = absl::Milliseconds(100);
  });
  Outcome outcome = Act();
  // Lets the guard finish its remaining work.
  service_.gate().Fail(OperationKind::kComplete, std::nullopt);
  return outcome;
}

Outcome ErrorStack::ReplyNotKept() {
  Serve(Done, [](ProbeServer::Options& options) {
    options.guard.methods[kAct].MutableReplacementPolicy().reply = MethodPolicy::Reply::kStatusOnly;
  });
  EXPECT_TRUE(Act().status.ok());
  return Act();
}

Outcome ErrorStack::StoreUnavailable() {
  Serve(Done, [&](ProbeServer::Options& options) {
    options.channel = nullptr;
    options.idempotencyd = Daemon().address();
    options.guard.verdict_timeout = absl::Milliseconds(200);
    options.guard.closing_timeout = absl::Milliseconds(100);
  });
  Daemon().Kill();
  return Act();
}

Outcome ErrorStack::QuotaExceeded() {
  NamespaceSettings one_an_hour;
  one_an_hour.max_rate = 1.0 / 3600;
  Observer observer;
  Tenants tenants(observer);
  tenants.Configure({{"probe", one_an_hour}});
  MemoryService limited(limits::kMaxQueuedOperations, nullptr, &tenants);
  Serve(Done, [&](ProbeServer::Options& options) { options.channel = limited.channel(); });
  EXPECT_TRUE(Act("first").status.ok());
  Outcome outcome = Act("second");
  server_.reset();
  return outcome;
}

Outcome ErrorStack::Overloaded() {
  MemoryService full(/*max_queued=*/1);
  full.gate().Shut();
  const auto reserve = [&, channel = full.channel()](const std::string& key) {
    return CallDaemon(channel, &Stub::Reserve, SomeReserve(key));
  };
  // Two are in the store, which does not answer; the third is queued.
  auto first = std::async(std::launch::async, reserve, "1");
  EXPECT_TRUE(full.gate().AwaitCalls(1));
  auto second = std::async(std::launch::async, reserve, "2");
  EXPECT_TRUE(full.gate().AwaitCalls(2));
  auto third = std::async(std::launch::async, reserve, "3");
  EXPECT_TRUE(full.observer().Await(&CountingObserver::Counts::queued, 1));
  Outcome outcome = reserve("4");
  full.gate().Open();
  for (auto* const taken : {&first, &second, &third}) EXPECT_TRUE(taken->get().status.ok());
  return outcome;
}

Outcome ErrorStack::RequestInvalid() {
  return CallDaemon(DaemonChannel(), &Stub::Reserve, v1::ReserveRequest());
}

Outcome ErrorStack::FingerprintUnknown() {
  v1::ReserveRequest request = SomeReserve(kKey);
  EXPECT_TRUE(CallDaemon(DaemonChannel(), &Stub::Reserve, request).status.ok());
  request.mutable_fingerprints(0)->set_version(2);
  return CallDaemon(DaemonChannel(), &Stub::Reserve, request);
}

Outcome ErrorStack::RecordNotFound() {
  return CallDaemon(DaemonChannel(), &Stub::Get, SomeGet(kKey));
}

Outcome ErrorStack::RecordDamaged() {
  const ReserveOp op = Reservation();
  CompleteOp complete{op.key, op.id, Reserve(op), EncodeReply(v1::Reply())};
  complete.reply.bytes = "not what its digest is of";
  EXPECT_TRUE(service_.store().Complete({&complete, 1}).front().ok());
  return Act();
}

Outcome ErrorStack::RecordIdCollision() {
  // Another key that has the same id, a hypothetical collision.
  ReserveOp op = Reservation();
  op.key.key = "another key";
  Reserve(op);
  return Act();
}

Outcome ErrorStack::RecordChanged() {
  v1::ReserveRequest reserve = SomeReserve(kKey);
  EXPECT_TRUE(CallDaemon(DaemonChannel(), &Stub::Reserve, reserve).status.ok());
  return Release(/*attempt=*/2);
}

Outcome ErrorStack::ForceRequired() {
  v1::ReserveRequest reserve = SomeReserve(kKey);
  EXPECT_TRUE(CallDaemon(DaemonChannel(), &Stub::Reserve, reserve).status.ok());
  return Release(/*attempt=*/1);
}

Outcome ErrorStack::DownstreamRefused() {
  // The handler passes on the status of its own call.
  Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> all;
    all.push_back(MakeClientInterceptor());
    const auto step = Probe::NewStub(grpc::experimental::CreateCustomChannelWithInterceptors(
        server_->address(), grpc::InsecureChannelCredentials(), {}, std::move(all)));
    grpc::ClientContext call;
    EXPECT_TRUE(WithKey(call, kKey).ok());
    EXPECT_TRUE(Execution::FromContext(&context)->Attach(call, "step").ok());
    ActReply reply;
    return step->Act(&call, {}, &reply);
  });
  return Act();
}

Outcome ErrorStack::CredentialsInvalid() { return CallRestricted(AccessRules()); }

Outcome ErrorStack::AccessDenied() {
  AccessRules rules;
  rules.identities.resize(1);
  rules.identities[0].name = "network";
  rules.identities[0].anonymous = true;
  return CallRestricted(rules);
}

const std::map<Reason, ErrorStack::Producer>& ErrorStack::Producers() {
  static const auto* const producers = new std::map<Reason, Producer>{
      {Reason::kKeyMissing, {{StatusCode::INVALID_ARGUMENT}, &ErrorStack::KeyMissing}},
      {Reason::kKeyInvalid, {{StatusCode::INVALID_ARGUMENT}, &ErrorStack::KeyInvalid}},
      {Reason::kKeyReused, {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::KeyReused}},
      {Reason::kKeyExpired, {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::KeyExpired}},
      {Reason::kInFlight, {{StatusCode::ABORTED, /*has_wait=*/true}, &ErrorStack::InFlight}},
      {Reason::kOutcomeUnknown, {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::OutcomeUnknown}},
      {Reason::kReservationLost,
       {{StatusCode::ABORTED, /*has_wait=*/true}, &ErrorStack::ReservationLost}},
      {Reason::kOutcomeNotRecorded, {{StatusCode::UNAVAILABLE}, &ErrorStack::OutcomeNotRecorded}},
      {Reason::kReplyNotKept, {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::ReplyNotKept}},
      {Reason::kStoreUnavailable,
       {{StatusCode::UNAVAILABLE, /*has_wait=*/true}, &ErrorStack::StoreUnavailable}},
      {Reason::kQuotaExceeded,
       {{StatusCode::RESOURCE_EXHAUSTED, /*has_wait=*/true}, &ErrorStack::QuotaExceeded}},
      {Reason::kOverloaded,
       {{StatusCode::RESOURCE_EXHAUSTED, /*has_wait=*/true}, &ErrorStack::Overloaded}},
      {Reason::kRequestInvalid, {{StatusCode::INVALID_ARGUMENT}, &ErrorStack::RequestInvalid}},
      {Reason::kFingerprintUnknown,
       {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::FingerprintUnknown}},
      {Reason::kRecordNotFound, {{StatusCode::NOT_FOUND}, &ErrorStack::RecordNotFound}},
      {Reason::kRecordDamaged, {{StatusCode::DATA_LOSS}, &ErrorStack::RecordDamaged}},
      {Reason::kRecordIdCollision, {{StatusCode::INTERNAL}, &ErrorStack::RecordIdCollision}},
      {Reason::kRecordChanged, {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::RecordChanged}},
      {Reason::kForceRequired, {{StatusCode::FAILED_PRECONDITION}, &ErrorStack::ForceRequired}},
      {Reason::kDownstreamRefused, {{StatusCode::INTERNAL}, &ErrorStack::DownstreamRefused}},
      {Reason::kCredentialsInvalid,
       {{StatusCode::UNAUTHENTICATED}, &ErrorStack::CredentialsInvalid}},
      {Reason::kAccessDenied, {{StatusCode::PERMISSION_DENIED}, &ErrorStack::AccessDenied}},
  };
  return *producers;
}

void ExpectAsItIsWritten(const Outcome& outcome, Reason reason, const Row& row) {
  EXPECT_EQ(outcome.status.error_code(), row.code) << outcome.status.error_message();
  EXPECT_NE(outcome.status.error_message(), "");
  const Details details = Details::Of(outcome.status);
  const auto info = details.Get<wire::ErrorInfo>("ErrorInfo");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->domain(), "grpc-idempotency.dev");
  EXPECT_EQ(info->reason(), ReasonName(reason));

  const auto retry = details.Get<wire::RetryInfo>("RetryInfo");
  EXPECT_EQ(retry.has_value(), row.has_wait);
  std::string pushback;
  if (retry.has_value()) {
    const auto& delay = retry->retry_delay();
    pushback = absl::StrCat(delay.seconds() * 1000 + (delay.nanos() + 999'999) / 1'000'000);
    EXPECT_NE(pushback, "0") << "at once is a flood";
  }
  // No number of retries changes it.
  if (reason == Reason::kOutcomeUnknown) pushback = "-1";
  EXPECT_EQ(outcome.Trailer("grpc-retry-pushback-ms"), pushback);
  // Trailers-Only, otherwise gRPC does not retry.
  EXPECT_TRUE(outcome.initial_metadata.empty());
}

class ErrorCatalogue : public ErrorStack, public ::testing::WithParamInterface<Reason> {};

TEST_P(ErrorCatalogue, ReachesACallerAsItIsWritten) {
  const auto producer = Producers().find(GetParam());
  ASSERT_NE(producer, Producers().end()) << "nothing here brings this reason about";
  ExpectAsItIsWritten((this->*producer->second.call)(), GetParam(), producer->second.row);
}

INSTANTIATE_TEST_SUITE_P(AllReasons, ErrorCatalogue, ::testing::ValuesIn(AllReasons()),
                         [](const auto& test) { return std::string(ReasonName(test.param)); });

// The further content of some of them, and the reason that has two codes.

using ErrorDetail = ErrorStack;

TEST_F(ErrorDetail, ALostReservationIsAFailedPreconditionAtTheService) {
  const auto channel = DaemonChannel();
  EXPECT_TRUE(CallDaemon(channel, &Stub::Reserve, SomeReserve(kKey)).status.ok());
  const Outcome lost = CallDaemon(channel, &Stub::Complete,
                                  SomeComplete(kKey, Uuid::Random().ToString(), "of a stranger"));
  ExpectAsItIsWritten(lost, Reason::kReservationLost, {StatusCode::FAILED_PRECONDITION});
}

TEST_F(ErrorDetail, AReplyThatWasNotKeptHasTheOriginalCode) {
  const Outcome outcome = ReplyNotKept();
  const auto info = Details::Of(outcome.status).Get<wire::ErrorInfo>("ErrorInfo");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata().at("original_code"), "0");
}

TEST_F(ErrorDetail, AnInvalidRequestNamesTheField) {
  const Outcome outcome = RequestInvalid();
  const auto violated = Details::Of(outcome.status).Get<wire::BadRequest>("BadRequest");
  ASSERT_TRUE(violated.has_value());
  ASSERT_GE(violated->field_violations_size(), 1);
  EXPECT_EQ(violated->field_violations(0).field(), "record_key");
  EXPECT_NE(violated->field_violations(0).description(), "");
}

}  // namespace
}  // namespace idempotency::internal::testing
