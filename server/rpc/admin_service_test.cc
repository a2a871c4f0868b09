// The service of administrators as a client sees it.
#include "server/rpc/admin_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "core/testing/manual_clock.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "server/access/access_control.h"
#include "server/access/access_policy.h"
#include "server/limits.h"
#include "server/operation/page_token.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/idempotency_service.h"
#include "server/store/limits.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/api_server.h"
#include "server/testing/store_decorator.h"
#include "tests/support/raw_calls.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Keeps what is reported. Thread-safe.
class ActObserver final : public Observer {
 public:
  void AdminActed(const AdminAct& act) override {
    MutexLock lock(mutex_);
    acts_.push_back(act);
  }
  void CallerRefused(const RefusedCaller& caller) override {
    MutexLock lock(mutex_);
    refused_.push_back(caller);
  }
  void WaitersChanged(std::size_t waiters) override {
    MutexLock lock(mutex_);
    waiters_ = waiters;
    changed_.NotifyAll();
  }
  void AwaitAWaiter() {
    MutexLock lock(mutex_);
    while (waiters_ == 0) changed_.Wait(lock);
  }
  std::vector<AdminAct> acts() {
    MutexLock lock(mutex_);
    return acts_;
  }
  std::vector<RefusedCaller> refused() {
    MutexLock lock(mutex_);
    return refused_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<RefusedCaller> refused_ ABSL_GUARDED_BY(mutex_);
  std::vector<AdminAct> acts_ ABSL_GUARDED_BY(mutex_);
  std::size_t waiters_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Lists wait while it is shut. Thread-safe.
class HeldLists final : public StoreDecorator<HeldLists> {
 public:
  using StoreDecorator::StoreDecorator;

  absl::StatusOr<RecordPage> List(const ListOp& op) override {
    {
      MutexLock lock(mutex_);
      ++waiting_;
      changed_.NotifyAll();
      while (shut_) changed_.Wait(lock);
      --waiting_;
    }
    absl::StatusOr<RecordPage> page = store().List(op);
    if (page.ok()) page->damaged = damaged;
    return page;
  }
  // What a store reports of each page.
  std::atomic<std::int64_t> damaged{0};

  void Shut() { Set(true); }
  void Open() { Set(false); }
  void AwaitAList() {
    MutexLock lock(mutex_);
    while (waiting_ == 0) changed_.Wait(lock);
  }

 private:
  friend class StoreDecorator<HeldLists>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    return (store().*method)(ops);
  }
  void Set(bool shut) {
    MutexLock lock(mutex_);
    shut_ = shut;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

using AdminStub = v1::IdempotencyAdminService::Stub;

// For what is refused at once.
constexpr std::chrono::seconds kPatience{30};

class AdminServiceTest : public ::testing::TestWithParam<ServerApi> {
 protected:
  explicit AdminServiceTest(std::size_t max_bytes = BatcherOptions().max_bytes)
      : max_bytes_(max_bytes) {}

  void SetUp() override {
    access_.Restrict(Granting({Permission::kRead, Permission::kAdmin}), clock_);
    server_ = std::make_unique<ApiServer>(GetParam(), service_, &admin_);
    channel_ = server_->Channel();
    stub_ = v1::IdempotencyAdminService::NewStub(channel_);
  }
  void TearDown() override {
    waiters_.Close();
    server_.reset();
    worker_.Close();
    batcher_.Close();
    EXPECT_EQ(batcher_.budget().held(), 0u);
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (v1::IdempotencyAdminService::Stub::*method)(
                                    grpc::ClientContext*, const Request&, Response*),
                                const Request& request) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = (*stub_.*method)(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response;
  }
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request) {
    return Call(&v1::IdempotencyAdminService::Stub::List, request);
  }
  absl::StatusOr<v1::ResolveResponse> Resolve(const v1::ResolveRequest& request) {
    return Call(&v1::IdempotencyAdminService::Stub::Resolve, request);
  }
  absl::StatusOr<v1::PurgeResponse> Purge(const v1::PurgeRequest& request) {
    return Call(&v1::IdempotencyAdminService::Stub::Purge, request);
  }
  absl::StatusOr<v1::ResealResponse> Reseal(const v1::ResealRequest& request) {
    return Call(&v1::IdempotencyAdminService::Stub::Reseal, request);
  }
  absl::StatusOr<v1::ListAuditResponse> ListAudit(const v1::ListAuditRequest& request) {
    return Call(&v1::IdempotencyAdminService::Stub::ListAudit, request);
  }

  // A call whose caller waits no longer than this.
  template <typename Response, typename Request>
  absl::Status GiveUp(grpc::Status (AdminStub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                      const Request& request,
                      std::chrono::milliseconds after = std::chrono::milliseconds(50)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + after);
    Response response;
    return FromGrpcStatus((*stub_.*method)(&context, request, &response));
  }
  // Lists until one is refused for want of a place.
  absl::Status TryUntilRefused(const v1::ListRequest& request) {
    absl::Status status;
    while (ReasonOf(status) != Reason::kOverloaded) status = GiveUp(&AdminStub::List, request);
    return status;
  }

  // A record that is RESERVED, and its token.
  std::pair<RecordKey, Uuid> Reserved(const std::string& key,
                                      const std::string& name_space = "payments") {
    ReserveOp op;
    op.key = {name_space, "tenant-1", "/payments.v1.Payments/Charge", key};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {{1, std::string(32, 'a')}};
    const auto verdict = store_.Reserve({&op, 1}).at(0);
    return {op.key, std::get<struct Reserved>(*verdict).token};
  }
  RecordKey Unknown(const std::string& key, const std::string& name_space = "payments") {
    const auto [record, token] = Reserved(key, name_space);
    const ReleaseOp op{record, RecordIdFor(record), token, "", /*outcome_unknown=*/true};
    EXPECT_TRUE(store_.Release({&op, 1}).at(0).ok());
    return record;
  }

  static v1::ResolveRequest Releasing(const RecordKey& key) {
    v1::ResolveRequest request;
    *request.mutable_record_key() = ToProto(key);
    request.set_outcome(v1::RESOLVE_OUTCOME_RELEASED);
    request.set_reason("ticket 42");
    request.set_expected_attempt(1);
    return request;
  }
  static v1::ResolveRequest Completing(const RecordKey& key) {
    v1::ResolveRequest request = Releasing(key);
    request.set_outcome(v1::RESOLVE_OUTCOME_COMPLETED);
    request.mutable_reply()->set_body("paid");
    return request;
  }
  static v1::PurgeRequest PurgingScope() {
    v1::PurgeRequest request;
    request.mutable_scope()->set_namespace_("payments");
    request.mutable_scope()->set_scope("tenant-1");
    request.set_reason("ticket 42");
    return request;
  }

  // The tests' calls are those of "alice", who has the permissions in two namespaces.
  static std::shared_ptr<const AccessPolicy> Granting(const std::vector<Permission>& permissions) {
    AccessRules rules;
    AccessRules::Identity& alice = rules.identities.emplace_back();
    alice.name = "alice";
    alice.local = true;
    rules.rules.push_back({"alice", {"payments", "orders"}, {}});
    for (const Permission permission : permissions) rules.rules[0].permissions.Add(permission);
    return std::make_shared<AccessPolicy>(std::move(rules));
  }
  AccessControl access_;

  const std::size_t max_bytes_;
  ManualClock clock_;
  MemoryStore records_{clock_};
  HeldLists store_{records_};
  ActObserver observer_;
  BatcherOptions Batching() const {
    BatcherOptions options;
    options.max_bytes = max_bytes_;
    return options;
  }
  Batcher batcher_{store_, observer_, Batching()};
  // Waiters learn nothing by reading again.
  InFlightWaitersOptions Waiting() const {
    InFlightWaitersOptions options;
    options.first_pause = options.longest_pause = absl::Hours(1);
    return options;
  }
  InFlightWaiters waiters_{batcher_, observer_, Waiting()};
  IdempotencyService service_{batcher_, waiters_, observer_};
  Administration administration_{store_, store_, waiters_, observer_};
  AdminWorker worker_;
  IdempotencyAdminService admin_{administration_, worker_, batcher_.budget(), access_,
                                 service_.unread_answers()};
  std::unique_ptr<ApiServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyAdminService::Stub> stub_;
};

TEST_P(AdminServiceTest, ListsPageByPage) {
  std::set<std::string> keys;
  for (int i = 0; i < 7; ++i) keys.insert(Unknown(absl::StrCat("key-", i)).key);
  Reserved("other", "orders");
  v1::ListRequest request;
  request.set_namespace_("payments");
  request.set_page_size(3);
  std::set<std::string> listed;
  int pages = 0;
  do {
    const auto page = List(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->records_size(), 3);
    for (const v1::Record& record : page->records()) {
      EXPECT_TRUE(listed.insert(record.record_key().key()).second);
      EXPECT_EQ(record.state(), v1::RECORD_STATE_UNKNOWN);
      EXPECT_EQ(record.attempt(), 1u);
    }
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, keys);
  EXPECT_EQ(pages, 3);
}

TEST_P(AdminServiceTest, APageHasTheNumberOfRecordsThatCannotBeRead) {
  v1::ListRequest request;
  request.set_namespace_("payments");
  EXPECT_EQ(List(request)->damaged(), 0);
  store_.damaged = 2;
  EXPECT_EQ(List(request)->damaged(), 2);
}

TEST_P(AdminServiceTest, APageTokenLeadsIntoNoOtherRequest) {
  for (int i = 0; i < 3; ++i) Unknown(absl::StrCat("key-", i));
  for (int i = 0; i < 3; ++i) Unknown(absl::StrCat("key-", i), "orders");
  v1::ListRequest request;
  request.set_namespace_("payments");
  request.set_page_size(1);
  const std::string token = List(request)->next_page_token();
  ASSERT_FALSE(token.empty());
  const auto refused = [&](const std::function<void(v1::ListRequest&)>& change) {
    v1::ListRequest changed = request;
    changed.set_page_token(token);
    change(changed);
    return ReasonOf(List(changed).status()) == Reason::kRequestInvalid;
  };
  EXPECT_TRUE(refused([](v1::ListRequest& r) { r.set_namespace_("orders"); }));
  EXPECT_TRUE(refused([](v1::ListRequest& r) { r.set_scope("tenant-1"); }));
  EXPECT_TRUE(refused([](v1::ListRequest& r) { r.set_state(v1::RECORD_STATE_UNKNOWN); }));
  EXPECT_TRUE(refused([](v1::ListRequest& r) { r.set_page_token("x"); }));
  EXPECT_TRUE(refused([&](v1::ListRequest& r) { r.set_page_token(token.substr(0, 30)); }));
  EXPECT_FALSE(refused([](v1::ListRequest& r) { r.set_page_size(2); }));
  v1::ListAuditRequest audit;
  audit.set_namespace_("payments");
  audit.set_page_token(token);
  EXPECT_EQ(ReasonOf(ListAudit(audit).status()), Reason::kRequestInvalid);
}

// No entry of the audit log has a negative number, and not every store can continue behind one.
TEST_P(AdminServiceTest, ATokenOfANegativeSequenceIsRefused) {
  v1::ListAuditRequest request;
  request.set_namespace_("payments");
  for (const std::int64_t sequence : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    request.set_page_token(PageTokenFor(request, sequence));
    EXPECT_EQ(ReasonOf(ListAudit(request).status()), Reason::kRequestInvalid) << sequence;
  }
  request.set_page_token(PageTokenFor(request, std::numeric_limits<std::int64_t>::max()));
  EXPECT_TRUE(ListAudit(request).ok());
}

TEST_P(AdminServiceTest, SettlesAndPurgesAndTells) {
  const RecordKey one = Unknown("one");
  const RecordKey two = Unknown("two");
  v1::ResolveRequest dry = Completing(one);
  dry.set_validate_only(true);
  EXPECT_TRUE(Resolve(dry).ok());
  EXPECT_THAT(observer_.acts(), IsEmpty());
  const auto resolved = Resolve(Completing(one));
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->record_id(), RecordIdFor(one).ToString());
  EXPECT_EQ(resolved->previous_state(), v1::RECORD_STATE_UNKNOWN);
  EXPECT_EQ(resolved->state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_FALSE(resolved->repeated());
  EXPECT_TRUE(Resolve(Completing(one))->repeated());
  EXPECT_EQ(ReasonOf(Resolve(Releasing(one)).status()), Reason::kRecordChanged);
  v1::PurgeRequest purge;
  purge.set_record_id(RecordIdFor(two).ToString());
  purge.set_reason("ticket 43");
  EXPECT_EQ(ReasonOf(Purge(purge).status()), Reason::kForceRequired);
  purge.set_force(true);
  EXPECT_EQ(Purge(purge)->purged(), 1);
  EXPECT_EQ(ReasonOf(Purge(purge).status()), Reason::kRecordNotFound);
  const std::vector<AdminAct> acts = observer_.acts();
  ASSERT_THAT(acts, SizeIs(2));
  EXPECT_EQ(acts[0].action, AuditAction::kResolvedCompleted);
  EXPECT_EQ(acts[0].note.actor, "alice");
  EXPECT_THAT(acts[0].records, ElementsAre(RecordIdFor(one)));
  EXPECT_EQ(acts[1].action, AuditAction::kPurged);
  EXPECT_TRUE(acts[1].forced);
  v1::ListAuditRequest request;
  request.set_namespace_("payments");
  request.set_page_size(1);
  const auto first = ListAudit(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->entries_size(), 1);
  EXPECT_EQ(first->entries(0).actor(), "alice");
  EXPECT_EQ(first->entries(0).reason(), "ticket 42");
  EXPECT_EQ(first->entries(0).action(), v1::AUDIT_ACTION_RESOLVED_COMPLETED);
  EXPECT_EQ(first->entries(0).key_hmac(),
            std::string(acts[0].key_hmac->begin(), acts[0].key_hmac->end()));
  request.set_page_token(first->next_page_token());
  const auto second = ListAudit(request);
  ASSERT_EQ(second->entries_size(), 1);
  EXPECT_EQ(second->entries(0).record_id(), RecordIdFor(two).ToString());
  EXPECT_EQ(second->next_page_token(), "");
  request.clear_page_token();
  request.set_newest_first(true);
  EXPECT_EQ(ListAudit(request)->entries(0).record_id(), RecordIdFor(two).ToString());
  request.set_record_id(RecordIdFor(one).ToString());
  EXPECT_EQ(ListAudit(request)->entries(0).record_id(), RecordIdFor(one).ToString());
  request.set_record_id("one");
  EXPECT_EQ(ReasonOf(ListAudit(request).status()), Reason::kRequestInvalid);
}

// By id: a caller that may not administer its namespace gets the answer for a missing one.
TEST_P(AdminServiceTest, ARecordOfAForbiddenNamespaceLooksMissing) {
  const RecordKey theirs = Unknown("theirs", "secret");
  v1::ResolveRequest resolve = Releasing(theirs);
  EXPECT_EQ(Resolve(resolve).status().code(), absl::StatusCode::kPermissionDenied);
  resolve.clear_record_key();
  resolve.set_record_id(RecordIdFor(theirs).ToString());
  const absl::Status seen = Resolve(resolve).status();
  resolve.set_record_id(Uuid::Random().ToString());
  EXPECT_EQ(seen, Resolve(resolve).status());
  EXPECT_EQ(ReasonOf(seen), Reason::kRecordNotFound);
  v1::PurgeRequest purge;
  purge.set_reason("ticket 42");
  purge.set_force(true);
  purge.set_record_id(RecordIdFor(theirs).ToString());
  EXPECT_EQ(Purge(purge).status(), seen);
  v1::ListRequest list;
  list.set_namespace_("secret");
  EXPECT_EQ(List(list).status().code(), absl::StatusCode::kPermissionDenied);
  v1::ListAuditRequest audit;
  audit.set_namespace_("secret");
  EXPECT_EQ(ListAudit(audit).status().code(), absl::StatusCode::kPermissionDenied);
  const GetOp get{RecordIdFor(theirs), theirs};
  EXPECT_EQ(store_.Get({&get, 1}).at(0)->state, RecordState::kUnknown);
  EXPECT_THAT(observer_.acts(), IsEmpty());
}

TEST_P(AdminServiceTest, ANameThatCannotBeLoggedIsRefused) {
  const RecordKey key = Unknown("one");
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string(256, 'a')}) {
    AdminCaller caller;
    caller.authorize = [&](std::string_view) { return name; };
    EXPECT_EQ(administration_.Resolve(Completing(key), caller).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
  EXPECT_THAT(observer_.acts(), IsEmpty());
}

TEST_P(AdminServiceTest, AReaderMayListAndNothingElse) {
  const RecordKey key = Unknown("one");
  access_.Replace(Granting({Permission::kRead}));
  v1::ListRequest list;
  list.set_namespace_("payments");
  EXPECT_EQ(List(list)->records_size(), 1);
  EXPECT_EQ(ReasonOf(Resolve(Completing(key)).status()), Reason::kAccessDenied);
  EXPECT_THAT(observer_.refused(), SizeIs(1));
  EXPECT_EQ(ReasonOf(Purge(PurgingScope()).status()), Reason::kAccessDenied);
  EXPECT_THAT(observer_.refused(), SizeIs(2));
  v1::ListAuditRequest audit;
  audit.set_namespace_("payments");
  EXPECT_EQ(ReasonOf(ListAudit(audit).status()), Reason::kAccessDenied);
  access_.Replace(Granting({Permission::kAdmin}));
  EXPECT_EQ(ReasonOf(List(list).status()), Reason::kAccessDenied);
  // Alice may list nowhere; her own namespaces are two.
  v1::ListAuditRequest foreign;
  foreign.set_namespace_("others");
  EXPECT_EQ(ReasonOf(ListAudit(foreign).status()), Reason::kAccessDenied);
  const std::vector<RefusedCaller> refused = observer_.refused();
  ASSERT_THAT(refused, SizeIs(5));
  for (const RefusedCaller& caller : refused) {
    EXPECT_EQ(caller.identity, "alice");
    EXPECT_EQ(ReasonOf(caller.status), Reason::kAccessDenied);
    EXPECT_NE(caller.peer, "");
    EXPECT_TRUE(caller.is_administration);
  }
  EXPECT_EQ(refused.back().name_space, "others");
  EXPECT_TRUE(ListAudit(audit).ok());
  EXPECT_THAT(observer_.acts(), IsEmpty());
}

// A client retries such a status for as long as its deadline permits, in every run.
TEST_P(AdminServiceTest, ACodeThatProvesNothingIsNoOutcome) {
  for (const int code : {1, 2, 4, 12, 14}) {
    v1::ResolveRequest resolve = Completing({"payments", "s", "o", "k"});
    resolve.mutable_reply()->set_code(code);
    const absl::Status refusal = Resolve(resolve).status();
    ASSERT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument) << code;
    ASSERT_EQ(DetailsOf(refusal).violations.size(), 1u);
    EXPECT_EQ(DetailsOf(refusal).violations[0].field, "reply.code");
    EXPECT_EQ(DetailsOf(refusal).violations[0].description.substr(0, 18), "must not be CANCEL");
    // A route of HTTP, whose callers get the status in the message.
    resolve.mutable_reply()->set_message("HTTP 500");
    EXPECT_NE(Resolve(resolve).status().code(), absl::StatusCode::kInvalidArgument) << code;
  }
}

TEST_P(AdminServiceTest, NamesEveryFieldThatIsWrong) {
  const auto fields_of = [](const absl::Status& status) {
    std::set<std::string> fields;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const FieldViolation& violation : DetailsOf(status).violations) {
      fields.insert(violation.field);
    }
    return fields;
  };
  v1::ResolveRequest resolve;
  EXPECT_THAT(fields_of(Resolve(resolve).status()),
              ElementsAre("expected_attempt", "outcome", "reason", "record_key"));
  resolve = Completing({"payments", "s", "o", "k"});
  resolve.set_record_id(Uuid::Random().ToString());
  resolve.set_reason("line\nbreak");
  resolve.set_expected_state(v1::RECORD_STATE_COMPLETED);
  resolve.mutable_reply()->set_code(17);
  resolve.mutable_retention()->set_seconds(0);
  EXPECT_THAT(fields_of(Resolve(resolve).status()),
              ElementsAre("expected_state", "reason", "record_key", "reply.code", "retention"));
  resolve = Releasing({"payments", "s", "o", "k"});
  resolve.mutable_reply();
  resolve.set_reason(std::string(limits::kMaxAdminReasonBytes + 1, 'r'));
  EXPECT_THAT(fields_of(Resolve(resolve).status()), ElementsAre("reason", "reply"));
  EXPECT_THAT(fields_of(Reseal({}).status()), ElementsAre("namespace", "reason"));
  v1::PurgeRequest purge;
  purge.mutable_tombstone()->set_seconds(-1);
  EXPECT_THAT(fields_of(Purge(purge).status()), ElementsAre("reason", "target", "tombstone"));
  purge = PurgingScope();
  purge.mutable_scope()->clear_scope();
  EXPECT_THAT(fields_of(Purge(purge).status()), ElementsAre("scope.scope"));
  purge.mutable_before()->set_namespace_("Not");
  EXPECT_THAT(fields_of(Purge(purge).status()),
              ElementsAre("before.created_before", "before.namespace"));
  v1::ListRequest list;
  list.set_page_size(limits::kMaxListPage + 1);
  list.mutable_created_after()->set_nanos(-1);
  EXPECT_THAT(fields_of(List(list).status()),
              ElementsAre("created_after", "namespace", "page_size"));
}

TEST_P(AdminServiceTest, RefusesWhatIsNoMessage) {
  for (const char* const method : {"List", "Resolve", "Purge", "Reseal", "ListAudit"}) {
    const grpc::Status status = testing::CallRaw(
        channel_, absl::StrCat("/idempotency.v1.IdempotencyAdminService/", method), "\xff\xff");
    EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid) << method;
  }
}

TEST_P(AdminServiceTest, PurgesALargeScopeInSteps) {
  constexpr int kRecords = 2 * limits::kMaxPurgeStep + 7;
  for (int i = 0; i < kRecords; ++i) Unknown(absl::StrCat("key-", i));
  v1::PurgeRequest request = PurgingScope();
  EXPECT_EQ(Purge(request)->refused(), kRecords);
  request.set_force(true);
  request.set_validate_only(true);
  EXPECT_EQ(Purge(request)->purged(), kRecords);
  EXPECT_THAT(observer_.acts(), IsEmpty());
  request.set_validate_only(false);
  const auto purged = Purge(request);
  ASSERT_TRUE(purged.ok()) << purged.status();
  EXPECT_EQ(purged->purged(), kRecords);
  EXPECT_EQ(purged->next_page_token(), "");
  EXPECT_THAT(observer_.acts(), SizeIs(3));
}

// A process that ends does not finish a purge: its caller continues elsewhere.
TEST_P(AdminServiceTest, APurgeThatIsCutShortContinuesWithItsToken) {
  constexpr int kRecords = limits::kMaxPurgeStep + 7;
  for (int i = 0; i < kRecords; ++i) Unknown(absl::StrCat("key-", i));
  worker_.Hurry();
  v1::PurgeRequest request = PurgingScope();
  request.set_force(true);
  const auto first = Purge(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->purged(), limits::kMaxPurgeStep);
  ASSERT_NE(first->next_page_token(), "");
  request.set_page_token(first->next_page_token());
  request.set_force(false);
  EXPECT_EQ(ReasonOf(Purge(request).status()), Reason::kRequestInvalid);
  request.set_force(true);
  const auto second = Purge(request);
  EXPECT_EQ(second->purged(), 7);
  EXPECT_EQ(second->next_page_token(), "");
}

// A caller that waits for the running attempt gets what the administrator decided.
TEST_P(AdminServiceTest, AWaitingCallerIsAnsweredAtOnce) {
  const RecordKey key = Reserved("running").first;
  const auto stub = v1::IdempotencyService::NewStub(channel_);
  v1::ReserveRequest request;
  *request.mutable_record_key() = ToProto(key);
  request.add_fingerprints()->set_version(1);
  request.mutable_fingerprints(0)->set_digest(std::string(32, 'a'));
  request.mutable_max_wait()->set_seconds(20);
  v1::ReserveResponse response;
  std::thread caller([&] {
    grpc::ClientContext context;
    const grpc::Status status = stub->Reserve(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  });
  observer_.AwaitAWaiter();
  v1::ResolveRequest resolve = Completing(key);
  EXPECT_EQ(ReasonOf(Resolve(resolve).status()), Reason::kForceRequired);
  resolve.set_force(true);
  EXPECT_TRUE(Resolve(resolve).ok());
  caller.join();
  EXPECT_EQ(response.replay().reply().body(), "paid");
}

TEST_P(AdminServiceTest, OneMoreThanItsShareIsTurnedAway) {
  const RecordKey unknown = Unknown("one");
  store_.Shut();
  v1::ListRequest request;
  request.set_namespace_("payments");
  absl::Status first;
  std::thread caller([&] { first = List(request).status(); });
  store_.AwaitAList();
  // Lists that nobody waits for any more keep their places.
  const absl::Status refused = TryUntilRefused(request);
  EXPECT_TRUE(DetailsOf(refused).retry_delay.has_value());
  // Another namespace, and those who settle records, have places.
  v1::ListRequest other;
  other.set_namespace_("orders");
  EXPECT_NE(ReasonOf(GiveUp(&AdminStub::List, other)), Reason::kOverloaded);
  EXPECT_NE(ReasonOf(GiveUp(&AdminStub::Resolve, Releasing(unknown))), Reason::kOverloaded);
  // A namespace where the caller may do nothing is in the caller's own share.
  request.set_namespace_("accounts");
  EXPECT_TRUE(DetailsOf(TryUntilRefused(request)).retry_delay.has_value());
  request.set_namespace_("balances");
  EXPECT_EQ(ReasonOf(GiveUp(&AdminStub::List, request, kPatience)), Reason::kOverloaded);
  // A caller that may do this nowhere takes no place, and those that wait lose their permission.
  access_.Replace(Granting({}));
  EXPECT_EQ(ReasonOf(List(request).status()), Reason::kAccessDenied);
  store_.Open();
  caller.join();
  EXPECT_TRUE(first.ok()) << first;
}

template <typename Request>
Request Padded(Request request, std::size_t bytes) {
  constexpr int kUnknownField = 1000;
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      kUnknownField, std::string(bytes, 'x'));
  return request;
}

TEST_P(AdminServiceTest, ARequestThatWouldTakeMuchMemoryIsRefused) {
  const RecordKey key = Unknown("one");
  constexpr std::size_t kMost = limits::kMaxAdminRequestBytes;
  v1::ListRequest list;
  list.set_namespace_("payments");
  v1::ResealRequest reseal;
  reseal.set_namespace_("payments");
  reseal.set_reason("ticket 42");
  v1::ListAuditRequest audit;
  audit.set_namespace_("payments");
  EXPECT_EQ(ReasonOf(List(Padded(list, kMost)).status()), Reason::kRequestInvalid);
  EXPECT_EQ(ReasonOf(Purge(Padded(PurgingScope(), kMost)).status()), Reason::kRequestInvalid);
  EXPECT_EQ(ReasonOf(Reseal(Padded(reseal, kMost)).status()), Reason::kRequestInvalid);
  EXPECT_EQ(ReasonOf(ListAudit(Padded(audit, kMost)).status()), Reason::kRequestInvalid);
  EXPECT_TRUE(List(Padded(list, kMost / 2)).ok());
  v1::ResolveRequest resolve = Completing(key);
  resolve.mutable_reply()->set_body(std::string(limits::kMaxReplyBytes - 1024, 'r'));
  EXPECT_EQ(ReasonOf(Resolve(Padded(resolve, 2 * kMost)).status()), Reason::kRequestInvalid);
  EXPECT_TRUE(Resolve(resolve).ok());
}

TEST_P(AdminServiceTest, ACallWhoseCallerDoesNotReadEnds) {
  Unknown("one");
  AdminStub stub(server_->ChannelWithClosedWindows());
  v1::ListRequest request;
  request.set_namespace_("payments");
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.AsyncList(&context, request, &queue);
  call->ReadInitialMetadata(nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  EXPECT_GT(batcher_.budget().unread_answers(), 0u);
  service_.unread_answers().EndStalled(Clock::System().Monotonic() +
                                       absl::ToChronoNanoseconds(limits::kPeerTimeout));
  v1::ListResponse response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
}

// Of a service with little memory.
class AdminMemoryTest : public AdminServiceTest {
 protected:
  AdminMemoryTest() : AdminServiceTest(4 * limits::kMaxAdminRequestBytes) {}
};

TEST_P(AdminMemoryTest, LargeListsOfOneNamespaceLeaveRoomForNewWork) {
  store_.Shut();
  v1::ListRequest request;
  request.set_namespace_("payments");
  request = Padded(request, limits::kMaxAdminRequestBytes - 4096);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] { static_cast<void>(GiveUp(&AdminStub::List, request, kPatience)); });
  }
  store_.AwaitAList();
  const absl::Status refused = TryUntilRefused(request);
  EXPECT_TRUE(DetailsOf(refused).retry_delay.has_value());
  EXPECT_LT(batcher_.budget().held(), max_bytes_ / 2);
  const auto stub = v1::IdempotencyService::NewStub(channel_);
  v1::ReserveRequest reserve;
  *reserve.mutable_record_key() = ToProto(RecordKey{"orders", "tenant-1", "/o.v1.O/Do", "one"});
  reserve.add_fingerprints()->set_version(1);
  reserve.mutable_fingerprints(0)->set_digest(std::string(32, 'a'));
  v1::ReserveResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Reserve(&context, reserve, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  store_.Open();
  for (std::thread& caller : callers) caller.join();
}

INSTANTIATE_TEST_SUITE_P(Api, AdminServiceTest,
                         ::testing::Values(ServerApi::kCallback, ServerApi::kCompletionQueue),
                         [](const auto& api) { return NameOf(api.param); });
INSTANTIATE_TEST_SUITE_P(Api, AdminMemoryTest,
                         ::testing::Values(ServerApi::kCallback, ServerApi::kCompletionQueue),
                         [](const auto& api) { return NameOf(api.param); });

}  // namespace
}  // namespace idempotency::internal
