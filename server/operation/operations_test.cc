#include "server/operation/operations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/sha256.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"
#include "server/access/access_control.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/tenants/namespace_settings.h"
#include "server/tenants/tenants.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kReplyBytes = 10'000;

// An operation whose response is not read before the test allows it.
template <typename Response>
class Unread final : public PendingResponse<Response> {
 public:
  explicit Unread(OperationKind kind)
      : PendingResponse<Response>(kind, std::chrono::steady_clock::now(), Batcher::kNoDeadline) {}

  // The operation's end.
  absl::Status Await() {
    MutexLock lock(mutex_);
    while (!finished_) changed_.Wait(lock);
    return status_;
  }
  const Response& answer() const { return response_; }
  void Read() { hold_ = MemoryBudget::Hold(); }

 private:
  void Finish(const absl::Status& status) override {
    MutexLock lock(mutex_);
    hold_ = this->TakeHold();
    status_ = status;
    finished_ = true;
    changed_.NotifyAll();
  }
  Response& response() override { return response_; }

  Mutex mutex_;
  CondVar changed_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Response response_;
  MemoryBudget::Hold hold_;
};

// Remembers whether the last reservation may be relaxed.
class RelaxationWatch final : public StoreDecorator<RelaxationWatch> {
 public:
  explicit RelaxationWatch(Store& store) : StoreDecorator(store) {}
  bool relaxed() const { return relaxed_; }

 private:
  friend class StoreDecorator<RelaxationWatch>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind /*kind*/, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    if constexpr (std::is_same_v<Op, ReserveOp>) relaxed_ = ops.front().relaxed;
    return (store().*method)(ops);
  }

  std::atomic<bool> relaxed_{false};
};

class OperationsTest : public ::testing::Test {
 protected:
  // A record with a reply.
  void Complete(std::string_view name) {
    const Uuid token = std::get<Reserved>(*store_.Reserve({ReserveNamed(name)})[0]).token;
    ASSERT_TRUE(
        store_.Complete({CompleteNamed(name, token, std::string(kReplyBytes, 'r'))})[0].ok());
  }
  static v1::ReserveRequest ReserveRequestFor(std::string_view name) {
    v1::ReserveRequest request;
    *request.mutable_record_key() = ToProto(KeyNamed(name));
    *request.add_fingerprints() = ToProto(Fingerprint{1, std::string(32, 'a')});
    request.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
    return request;
  }
  // Once no other work is under way.
  std::size_t Held() {
    waiters_.Close();
    batcher_.Close();
    return batcher_.budget().held();
  }

  ManualClock clock_;
  MemoryStore store_{clock_};
  CountingObserver observer_;
  Batcher batcher_{store_, observer_};
  InFlightWaiters waiters_{batcher_, observer_};
  Operations operations_{batcher_, waiters_, observer_};
};

TEST_F(OperationsTest, AReservationIsRelaxedOnlyIfItsCallerAndTheOperatorAllowIt) {
  for (const bool operator_allows : {false, true}) {
    for (const bool caller_allows : {false, true}) {
      RelaxationWatch watch(store_);
      Batcher batcher(watch, observer_);
      InFlightWaiters waiters(batcher, observer_);
      OperationsOptions options;
      options.relaxed_reservations = operator_allows;
      Operations operations(batcher, waiters, observer_, options);
      v1::ReserveRequest request = ReserveRequestFor("order");
      request.set_relaxed(caller_allows);
      Unread<v1::ReserveResponse> answer(OperationKind::kReserve);
      operations.Reserve(request, answer);
      ASSERT_TRUE(answer.Await().ok());
      EXPECT_EQ(watch.relaxed(), operator_allows && caller_allows);
      waiters.Close();
      batcher.Close();
    }
  }
}

// After an outage too, in which completions are sent again and again.
TEST_F(OperationsTest, OnlyACompletionThatStoredItsReplyCountsToTheQuota) {
  Tenants tenants(observer_, clock_);
  const ReserveOp reserve = ReserveNamed("order");
  NamespaceSettings settings;
  settings.max_reply_bytes = 3 * kReplyBytes;
  tenants.Configure({{reserve.key.name_space, settings}});
  tenants.BeginMeasurement(reserve.key.name_space);
  tenants.EndMeasurement(reserve.key.name_space, {0, 0});
  GatedStore gated(store_);
  Batcher batcher(gated, observer_);
  InFlightWaiters waiters(batcher, observer_);
  OperationsOptions options;
  options.tenants = &tenants;
  Operations operations(batcher, waiters, observer_, options);
  const Uuid token = std::get<Reserved>(*store_.Reserve({reserve})[0]).token;
  v1::CompleteRequest request;
  *request.mutable_record_key() = ToProto(reserve.key);
  request.set_reservation_token(token.ToString());
  request.mutable_reply()->set_body(std::string(kReplyBytes, 'r'));
  const auto completes = [&] {
    Unread<v1::CompleteResponse> answer(OperationKind::kComplete);
    operations.Complete(request, answer);
    return answer.Await().ok();
  };
  gated.Fail(OperationKind::kComplete, Reason::kStoreUnavailable);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(completes());
  gated.Fail(OperationKind::kComplete, std::nullopt);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(completes());
  Unread<v1::ReserveResponse> another(OperationKind::kReserve);
  operations.Reserve(ReserveRequestFor("another"), another);
  EXPECT_TRUE(another.Await().ok());
  settings.max_reply_bytes = kReplyBytes;
  tenants.Configure({{reserve.key.name_space, settings}});
  Unread<v1::ReserveResponse> one_more(OperationKind::kReserve);
  operations.Reserve(ReserveRequestFor("one-more"), one_more);
  EXPECT_EQ(ReasonOf(one_more.Await()), Reason::kQuotaExceeded) << "it was counted once";
  waiters.Close();
  batcher.Close();
}

// Callers that request a reply again and again and read none of the answers must not fill the
// memory of the others.
TEST_F(OperationsTest, AReplayWeighsUntilItIsRead) {
  Complete("order");
  Unread<v1::ReserveResponse> replay(OperationKind::kReserve);
  operations_.Reserve(ReserveRequestFor("order"), replay);
  ASSERT_TRUE(replay.Await().ok());
  EXPECT_EQ(replay.answer().replay().reply().body().size(), kReplyBytes);
  // In the message, and as gRPC sends it.
  EXPECT_GE(Held(), 2 * kReplyBytes);
  EXPECT_LT(Held(), 3 * kReplyBytes);
  replay.Read();
  EXPECT_EQ(Held(), 0u);
}

TEST_F(OperationsTest, ARecordWithItsReplyWeighsUntilItIsRead) {
  Complete("order");
  v1::GetRequest request;
  *request.mutable_record_key() = ToProto(KeyNamed("order"));
  request.set_view(v1::RECORD_VIEW_FULL);
  Unread<v1::GetResponse> record(OperationKind::kGet);
  operations_.Get(request, record);
  ASSERT_TRUE(record.Await().ok());
  EXPECT_GE(Held(), 2 * kReplyBytes);
  EXPECT_LT(Held(), 3 * kReplyBytes);
  record.Read();
  EXPECT_EQ(Held(), 0u);
}

// A read without the content reserves no memory for a reply, so its message must not be one.
TEST_F(OperationsTest, ARecordWithoutItsContentIsSmallHoweverLongItsMessageIs) {
  const Uuid token = std::get<Reserved>(*store_.Reserve({ReserveNamed("order")})[0]).token;
  v1::Reply reply;
  reply.set_code(9);
  reply.set_content(v1::REPLY_CONTENT_FULL);
  reply.set_message(std::string(limits::kMaxReplyBytes / 2, 'x'));
  CompleteOp complete = CompleteNamed("order", token);
  complete.reply = EncodeReply(reply);
  ASSERT_TRUE(store_.Complete({complete})[0].ok());
  for (const v1::RecordView view : {v1::RECORD_VIEW_UNSPECIFIED, v1::RECORD_VIEW_BASIC}) {
    v1::GetRequest request;
    *request.mutable_record_key() = ToProto(KeyNamed("order"));
    request.set_view(view);
    Unread<v1::GetResponse> record(OperationKind::kGet);
    operations_.Get(request, record);
    ASSERT_TRUE(record.Await().ok());
    EXPECT_EQ(record.answer().record().reply().code(), reply.code());
    EXPECT_EQ(record.answer().record().reply().message(), reply.message().substr(0, 1024));
    EXPECT_EQ(record.answer().record().reply().content(), reply.content());
  }
}

// The namespace of a record that cannot be read is not known.
TEST_F(OperationsTest, ADamagedRecordIsReportedToReadersOfEveryNamespace) {
  GatedStore gated(store_);
  Batcher batcher(gated, observer_);
  InFlightWaiters waiters(batcher, observer_);
  Operations operations(batcher, waiters, observer_);
  AccessRules rules;
  Permissions read;
  read.Add(Permission::kRead);
  for (const std::string name : {"reader", "auditor"}) {
    AccessRules::Identity& identity = rules.identities.emplace_back();
    identity.name = name;
    identity.token_digests = {Sha256(name)};
    const bool everywhere = name == "auditor";
    rules.rules.push_back({name, {everywhere ? "*" : KeyNamed("").name_space}, read});
  }
  AccessControl access;
  access.Restrict(std::make_shared<AccessPolicy>(std::move(rules)), clock_);
  const auto get = [&](const std::string& token, bool by_id) {
    Credentials credentials;
    credentials.token = token;
    Caller caller(access, credentials);
    v1::GetRequest request;
    if (by_id) {
      request.set_record_id(IdNamed("order").ToString());
    } else {
      *request.mutable_record_key() = ToProto(KeyNamed("order"));
    }
    Unread<v1::GetResponse> record(OperationKind::kGet);
    record.SetCaller(&caller);
    operations.Get(request, record);
    return record.Await();
  };
  const absl::Status missing = get("reader", /*by_id=*/true);
  EXPECT_EQ(ReasonOf(missing), Reason::kRecordNotFound);
  gated.Fail(OperationKind::kGet, Reason::kRecordDamaged);
  EXPECT_EQ(get("reader", /*by_id=*/true), missing);
  EXPECT_EQ(ReasonOf(get("reader", /*by_id=*/false)), Reason::kRecordDamaged);
  EXPECT_EQ(ReasonOf(get("auditor", /*by_id=*/true)), Reason::kRecordDamaged);
  gated.Fail(OperationKind::kGet, Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(get("reader", /*by_id=*/true)), Reason::kStoreUnavailable);
  waiters.Close();
  batcher.Close();
}

// They belong to no namespace, whose limits would bound them.
TEST_F(OperationsTest, ReadsByRecordIdOfOneCallerLeaveRoomForThoseOfOthers) {
  GatedStore gated(store_);
  BatcherOptions options;
  options.threads = 1;
  options.max_queued = 4;
  Batcher batcher(gated, observer_, options);
  InFlightWaiters waiters(batcher, observer_);
  Operations operations(batcher, waiters, observer_);
  AccessRules rules;
  Permissions read;
  read.Add(Permission::kRead);
  for (const std::string name : {"many", "few"}) {
    AccessRules::Identity& identity = rules.identities.emplace_back();
    identity.name = name;
    identity.token_digests = {Sha256(name)};
    rules.rules.push_back({name, {KeyNamed("").name_space}, read});
  }
  AccessControl access;
  access.Restrict(std::make_shared<AccessPolicy>(std::move(rules)), clock_);
  const auto caller_with = [&access](const std::string& token) {
    Credentials credentials;
    credentials.token = token;
    return std::make_unique<Caller>(access, credentials);
  };
  const std::unique_ptr<Caller> many = caller_with("many");
  const std::unique_ptr<Caller> few = caller_with("few");
  v1::GetRequest request;
  request.set_record_id(IdNamed("order").ToString());
  std::vector<std::unique_ptr<Unread<v1::GetResponse>>> reads;
  const auto read_by = [&](Caller& caller) {
    reads.push_back(std::make_unique<Unread<v1::GetResponse>>(OperationKind::kGet));
    reads.back()->SetCaller(&caller);
    operations.Get(request, *reads.back());
  };
  gated.Shut();
  read_by(*many);
  ASSERT_TRUE(gated.AwaitCalls(1));
  for (std::size_t i = 0; i < options.max_queued + 1; ++i) read_by(*many);
  EXPECT_EQ(ReasonOf(reads.back()->Await()), Reason::kOverloaded);
  read_by(*few);
  gated.Open();
  EXPECT_EQ(ReasonOf(reads.back()->Await()), Reason::kRecordNotFound);
  waiters.Close();
  batcher.Close();
}

TEST_F(OperationsTest, AReadByRecordIdCountsForANamespaceThatItsCallerMayRead) {
  Tenants tenants(observer_, clock_);
  NamespaceSettings settings;
  settings.max_rate = 1;
  tenants.Configure({{"first", settings}, {"second", settings}});
  OperationsOptions options;
  options.tenants = &tenants;
  Operations operations(batcher_, waiters_, observer_, options);
  Permissions read;
  read.Add(Permission::kRead);
  AccessRules rules;
  const std::pair<std::string, std::vector<std::string>> callers[] = {
      {"both", {"first", "second"}},
      {"first", {"first"}},
      {"another", {"first", "without limits"}},
      {"all", {std::string(kEveryNamespace)}}};
  for (const auto& [name, namespaces] : callers) {
    AccessRules::Identity& identity = rules.identities.emplace_back();
    identity.name = name;
    identity.token_digests = {Sha256(name)};
    rules.rules.push_back({name, namespaces, read});
  }
  AccessControl access;
  access.Restrict(std::make_shared<AccessPolicy>(std::move(rules)), clock_);
  v1::GetRequest request;
  request.set_record_id(IdNamed("order").ToString());
  const auto reason_for = [&](const std::string& token) {
    Credentials credentials;
    credentials.token = token;
    Caller caller(access, credentials);
    Unread<v1::GetResponse> answer(OperationKind::kGet);
    answer.SetCaller(&caller);
    operations.Get(request, answer);
    return ReasonOf(answer.Await());
  };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reason_for("both"), Reason::kRecordNotFound) << i;
  EXPECT_EQ(reason_for("both"), Reason::kQuotaExceeded) << "in each of them";
  EXPECT_EQ(reason_for("first"), Reason::kQuotaExceeded);
  for (const char* const free : {"another", "all"}) {
    EXPECT_EQ(reason_for(free), Reason::kRecordNotFound) << free;
  }
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(reason_for("first"), Reason::kRecordNotFound);
  EXPECT_EQ(reason_for("first"), Reason::kQuotaExceeded);
}

TEST_F(OperationsTest, AnUnknownKeyIsOutsideTheWindowAfterADay) {
  const auto verdict_of = [this](absl::Duration age) {
    const std::string key = Uuid::TimeOrdered(clock_.Now() - age).ToString();
    Unread<v1::ReserveResponse> answer(OperationKind::kReserve);
    operations_.Reserve(ReserveRequestFor(key), answer);
    EXPECT_TRUE(answer.Await().ok());
    return answer.answer().verdict_case();
  };
  EXPECT_EQ(verdict_of(absl::Hours(23)), v1::ReserveResponse::kReserved);
  EXPECT_EQ(verdict_of(absl::Hours(25)), v1::ReserveResponse::kExpired);
}

TEST_F(OperationsTest, AVerdictThatCannotBeWrittenIsNotCounted) {
  const Uuid token = std::get<Reserved>(*store_.Reserve({ReserveNamed("order")})[0]).token;
  CompleteOp damaged = CompleteNamed("order", token);
  damaged.reply.bytes += "x";
  ASSERT_TRUE(store_.Complete({damaged})[0].ok());
  Unread<v1::ReserveResponse> replay(OperationKind::kReserve);
  operations_.Reserve(ReserveRequestFor("order"), replay);
  EXPECT_EQ(ReasonOf(replay.Await()), Reason::kRecordDamaged);
  EXPECT_EQ(observer_.counts().verdicts, 0u);
}

TEST_F(OperationsTest, OnlyAMismatchIsCountedAsOne) {
  Complete("order");
  for (const char request : {'a', 'b'}) {
    v1::ReserveRequest reserve = ReserveRequestFor("order");
    reserve.mutable_fingerprints(0)->set_digest(std::string(32, request));
    Unread<v1::ReserveResponse> answer(OperationKind::kReserve);
    operations_.Reserve(reserve, answer);
    ASSERT_TRUE(answer.Await().ok());
    EXPECT_EQ(answer.answer().has_mismatch(), request == 'b');
    EXPECT_EQ(observer_.counts().mismatches, request == 'b' ? 1u : 0u);
  }
}

TEST_F(OperationsTest, AReplayIsNoLargerThanItsCallerTakes) {
  Complete("order");
  v1::ReserveRequest request = ReserveRequestFor("order");
  request.set_max_reply_bytes(kReplyBytes / 2);
  Unread<v1::ReserveResponse> replay(OperationKind::kReserve);
  operations_.Reserve(request, replay);
  ASSERT_TRUE(replay.Await().ok());
  ASSERT_TRUE(replay.answer().has_replay());
  EXPECT_LT(replay.answer().ByteSizeLong(), kReplyBytes);
}

}  // namespace
}  // namespace idempotency::internal
