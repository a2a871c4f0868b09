// Every verdict, with every status code that a handler can return, under every kind of policy, in
// the sync and the callback API: whether the handler runs, the caller's answer, the record
// afterwards and the next call's answer. A model of the contract (outcome_model.h) has the expected
// values; the actual ones come from a real guarded server and the real service over the memory
// store.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/integration/memory_service.h"
#include "tests/integration/outcome_model.h"
#include "tests/support/api_name.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"

namespace idempotency::internal::testing {
namespace {

// Duplicates of the one are rejected, those of the other wait.
constexpr char kRejecting[] = "/idempotency.testing.Probe/Act";
constexpr char kWaiting[] = "/idempotency.testing.Probe/Look";
constexpr char kInitial[] = "x-initial";
constexpr char kTrailing[] = "x-trailing";
constexpr char kNothingHappened[] = "nothing-happened ";

bool Waits(Before before) {
  return before == Before::kEndedMeanwhile || before == Before::kGivenMeanwhile ||
         before == Before::kStillRunning;
}

std::string ValueIn(const std::multimap<std::string, std::string>& metadata,
                    const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

std::string EffectOf(const std::string& body) {
  ActReply reply;
  return reply.ParseFromString(body) ? reply.effect() : "(not an ActReply)";
}

// The message with an effect. Its map makes two serialisations of equal messages differ, so that a
// replay differs from a message serialised again.
void Fill(const std::string& effect, ActReply& reply) {
  reply.set_effect(effect);
  for (int i = 0; i < 8; ++i) (*reply.mutable_notes())[absl::StrCat("note ", i)] = effect;
}

// A handler that returns the code that `amount` selects, and marks every part of its reply with the
// number of the account's run. Thread-safe.
class Handler {
 public:
  grpc::Status operator()(grpc::ServerContextBase& context, const ActRequest& request,
                          ActReply& reply) {
    int run = 0;
    {
      MutexLock lock(mutex_);
      run = ++runs_[request.account()];
    }
    const auto answer =
        TableReply::Of(static_cast<grpc::StatusCode>(request.amount()), absl::StrCat("run ", run));
    context.AddInitialMetadata(kInitial, answer.initial_metadata);
    context.AddTrailingMetadata(kTrailing, answer.trailing_metadata);
    if (Execution* execution = Execution::FromContext(&context); execution != nullptr) {
      execution->SetReference("effect", answer.effect);
      if (request.account().rfind(kNothingHappened, 0) == 0) execution->MarkNoEffect();
    }
    Fill(answer.effect, reply);
    return {answer.code, answer.message, answer.details};
  }
  int RunsOf(const std::string& account) {
    MutexLock lock(mutex_);
    return runs_[account];
  }

 private:
  Mutex mutex_;
  std::map<std::string, int> runs_ ABSL_GUARDED_BY(mutex_);
};

MethodPolicy PolicyOf(const TablePolicy& table) {
  MethodPolicy policy;
  if (table.lists != CodeLists::kDefault) {
    policy.recorded = RecordedBy(table.lists);
    policy.released = ReleasedBy(table.lists);
  }
  policy.on_unknown_outcome = table.require_recovery
                                  ? MethodPolicy::OnUnknownOutcome::kRequireRecovery
                                  : MethodPolicy::OnUnknownOutcome::kTakeOver;
  policy.reply = table.reply;
  policy.fail_open = table.fail_open;
  return policy;
}

// One guarded server, for all cells of one policy in one API.
class Table {
 public:
  Table(Api api, const TablePolicy& policy) : policy_(policy) {
    ProbeServer::Options options;
    options.api = api;
    options.channel = service_.channel();
    options.handler = std::ref(handler_);
    MethodPolicy& rejecting = options.guard.methods[kRejecting].MutableReplacementPolicy();
    rejecting = PolicyOf(policy);
    MethodPolicy& waiting = options.guard.methods[kWaiting].MutableReplacementPolicy();
    waiting = rejecting;
    waiting.in_flight = MethodPolicy::InFlight::kWait;
    waiting.max_wait = limits::kMaxWait;
    if (policy.reply == MethodPolicy::Reply::kReference) {
      for (const char* const method : {kRejecting, kWaiting}) {
        options.guard.methods[method].loader =
            LoadReply<ActReply>([](const v1::Reference& reference, ActReply& reply) {
              Fill(absl::StrCat("read anew: ", reference.id()), reply);
              return absl::OkStatus();
            });
      }
    }
    server_ = std::make_unique<ProbeServer>(std::move(options));
    client_ = std::make_unique<ProbeClient>(server_->address());
  }

  const TablePolicy& policy() const { return policy_; }
  MemoryService& service() { return service_; }
  Handler& handler() { return handler_; }
  const ProbeClient& client() const { return *client_; }

 private:
  const TablePolicy policy_;
  Handler handler_;
  MemoryService service_;
  std::unique_ptr<ProbeServer> server_;
  std::unique_ptr<ProbeClient> client_;
};

// One cell: produces the record, calls, and returns the results.
class Play {
 public:
  Play(Table& table, const Cell& cell, int number)
      : table_(table),
        cell_(cell),
        ends_(cell.before),
        record_key_{"probe", "everybody", kRejecting, ""} {
    if (Waits(cell.before)) record_key_.operation = kWaiting;
    record_key_.key = absl::StrCat("cell-", number);
    if (cell.before == Before::kTooOld) {
      record_key_.key =
          Uuid::TimeOrdered(table.service().store_clock().Now() - absl::Hours(25)).ToString();
    }
    id_ = RecordIdFor(record_key_);
    request_.set_account(absl::StrCat(cell.no_effect ? kNothingHappened : "", "account ", number));
    request_.set_amount(static_cast<int>(cell.outcome));
  }

  std::vector<TableStep> Steps() {
    Prepare();
    std::vector<TableStep> steps = {Call()};
    table_.service().gate().Fail(OperationKind::kReserve, std::nullopt);
    // The earlier holder of the key has finished its work.
    ends_ = Before::kStillRunning;
    steps.push_back(Call());
    if (IsHeld()) {
      EndLease();
      steps.push_back(Call());
    }
    return steps;
  }

 private:
  // A record of another server, or of an earlier call.
  void Prepare() {
    switch (cell_.before) {
      case Before::kNothing:
      case Before::kTooOld:
        return;
      case Before::kRefused:
        // Any fault that the service finds in the guard's request.
        table_.service().gate().Fail(OperationKind::kReserve, Reason::kRequestInvalid);
        return;
      default:
        Reserve();
    }
    if (cell_.before == Before::kReleased) Release(/*outcome_unknown=*/false);
    if (cell_.before == Before::kUnknown) Release(/*outcome_unknown=*/true);
    if (cell_.before == Before::kLapsed) EndLease();
    if (cell_.before == Before::kCompleted || cell_.before == Before::kOtherCompleted) Complete();
  }

  void Reserve() {
    ReserveOp op;
    op.key = record_key_;
    op.id = id_;
    ActRequest request = request_;
    if (cell_.before == Before::kOtherCompleted || cell_.before == Before::kOtherRunning) {
      request.set_account("somebody else");
    }
    op.fingerprints = {FingerprintV1({record_key_.operation, request})};
    op.on_lease_expiry =
        cell_.policy.require_recovery ? LeaseExpiry::kRequireRecovery : LeaseExpiry::kTakeOver;
    const auto answer = table_.service().store().Reserve({&op, 1}).front();
    token_ = std::get<Reserved>(answer.value()).token;
  }
  void Release(bool outcome_unknown) {
    const ReleaseOp op{record_key_, id_, token_, "", outcome_unknown};
    EXPECT_TRUE(table_.service().store().Release({&op, 1}).front().ok());
  }
  void Complete() {
    const TableReply stored = TableReply::Of(cell_.outcome, "stored");
    v1::Reply reply;
    reply.set_code(static_cast<int>(stored.code));
    reply.set_message(stored.message);
    reply.set_details(stored.details);
    if (stored.code == grpc::StatusCode::OK) {
      ActReply body;
      Fill(stored.effect, body);
      body.SerializeToString(reply.mutable_body());
      sent_[stored.effect] = reply.body();
    }
    v1::MetadataEntry& initial = *reply.add_initial_metadata();
    initial.set_key(kInitial);
    initial.set_value(stored.initial_metadata);
    v1::MetadataEntry& trailing = *reply.add_trailing_metadata();
    trailing.set_key(kTrailing);
    trailing.set_value(stored.trailing_metadata);
    const CompleteOp op{record_key_, id_, token_, EncodeReply(reply)};
    EXPECT_TRUE(table_.service().store().Complete({&op, 1}).front().ok());
  }
  // By an attempt with a live lease, or by the pause after one.
  bool IsHeld() {
    const absl::StatusOr<Record> record = Get();
    if (!record.ok()) return false;
    const bool can_be_held =
        record->state == RecordState::kReserved || record->state == RecordState::kReleased;
    return can_be_held && record->lease_expires_at > table_.service().store_clock().Now();
  }
  void EndLease() {
    table_.service().store_clock().Advance(limits::kDefaultLease + absl::Seconds(1));
  }

  TableStep Call() {
    if (record_key_.operation != kWaiting || !IsHeld()) return StepOf(Send());
    auto waiting = std::async(std::launch::async, [this] { return Send(); });
    EXPECT_TRUE(table_.service().observer().Await(&CountingObserver::Counts::waiters, 1));
    if (ends_ == Before::kStillRunning) {
      table_.service().EndWaitsFor(id_);
    } else {
      if (ends_ == Before::kEndedMeanwhile) Complete();
      if (ends_ == Before::kGivenMeanwhile) Release(/*outcome_unknown=*/false);
      table_.service().OnRecordChanged(id_);
    }
    return StepOf(waiting.get());
  }
  Outcome Send() const {
    testing::Call call;
    call.account = request_.account();
    call.amount = request_.amount();
    call.keys = {record_key_.key};
    if (record_key_.operation == kWaiting) call.method = "Look";
    return table_.client().Send(call);
  }

  TableStep StepOf(const Outcome& outcome) {
    TableStep step;
    TableAnswer& answer = step.answer;
    answer.code = outcome.status.error_code();
    answer.reason = outcome.reason();
    const ErrorDetails details = DetailsOf(FromGrpcStatus(outcome.status));
    answer.retry_info = details.retry_delay.has_value();
    answer.pushback = !outcome.Trailer("grpc-retry-pushback-ms").empty();
    answer.initial_metadata = ValueIn(outcome.initial_metadata, kInitial);
    answer.trailing_metadata = ValueIn(outcome.trailing_metadata, kTrailing);
    answer.names_record = outcome.Trailer("idempotency-record") == id_.ToString();
    answer.names_expiry = !outcome.Trailer("idempotency-expires").empty();
    answer.replayed = outcome.replayed();
    answer.content = outcome.Trailer("idempotency-content");
    if (answer.reason.has_value()) {
      const auto code = details.metadata.find("original_code");
      if (code != details.metadata.end()) answer.original_code = code->second;
      // Returns text, and is Trailers-Only: with initial metadata gRPC would not retry.
      if (outcome.status.error_message().empty()) answer.message = "(none)";
      if (!outcome.initial_metadata.empty()) answer.initial_metadata = "(not Trailers-Only)";
    } else {
      answer.message = outcome.status.error_message();
      answer.details = outcome.status.error_details();
    }
    answer.effect = Effect(outcome);
    step.runs = table_.handler().RunsOf(request_.account());
    step.record = RecordNow();
    return step;
  }
  // For the body, whose bytes are those of the first caller's reply.
  std::string Effect(const Outcome& outcome) {
    if (outcome.body.empty()) return "";
    const std::string effect = EffectOf(outcome.body);
    const auto [first, is_first] = sent_.try_emplace(effect, outcome.body);
    return is_first || first->second == outcome.body ? effect : effect + " in other bytes";
  }

  absl::StatusOr<Record> Get() {
    const GetOp op{id_, record_key_};
    return table_.service().store().Get({&op, 1}).front();
  }
  std::string RecordNow() {
    const absl::StatusOr<Record> record = Get();
    if (!record.ok()) return "none";
    switch (record->state) {
      case RecordState::kReserved:
        return absl::StrCat("RESERVED ", record->attempt);
      case RecordState::kCompleted:
        return absl::StrCat("COMPLETED ", record->attempt);
      case RecordState::kReleased:
        return absl::StrCat("RELEASED ", record->attempt);
      case RecordState::kUnknown:
        return absl::StrCat("UNKNOWN ", record->attempt);
    }
    return "";
  }

  Table& table_;
  const Cell cell_;
  // The end of the attempt for which a caller waits.
  Before ends_;
  RecordKey record_key_;
  RecordId id_;
  ActRequest request_;
  Uuid token_;
  // The bodies that were received, by their effect.
  std::map<std::string, std::string> sent_;
};

std::string ToString(const std::vector<TableStep>& steps) {
  std::string text;
  for (const TableStep& step : steps) absl::StrAppend(&text, "  ", step.ToString(), "\n");
  return text;
}

struct Column {
  Api api;
  CodeLists lists;
};
std::string NameOf(const Column& column) {
  const char* const lists = column.lists == CodeLists::kDefault ? "DefaultCodes"
                            : column.lists == CodeLists::kNone  ? "NoCodes"
                                                                : "OwnCodes";
  return absl::StrCat(NameOf(column.api), lists);
}

// False where a policy can make no difference to a call on this record: the stored part of a reply
// if the call's handler does not run, failing open while there are verdicts. True for a few of
// those all the same.
bool Matters(const TablePolicy& policy, Before before) {
  const bool keeps_all = policy.reply == MethodPolicy::Reply::kFull;
  if (before == Before::kRefused) return true;
  if (policy.fail_open) {
    return keeps_all && (before == Before::kNothing || before == Before::kRunning);
  }
  return keeps_all || before == Before::kNothing || before == Before::kReleased ||
         before == Before::kLapsed || before == Before::kCompleted ||
         before == Before::kEndedMeanwhile || before == Before::kGivenMeanwhile;
}

class GuardTable : public ::testing::TestWithParam<Column> {
 protected:
  void RunAll(const TablePolicy& policy) {
    Table table(GetParam().api, policy);
    for (const Before before : kAllBefore) {
      if (Matters(policy, before)) RunEachOutcome(table, before, /*no_effect=*/false);
    }
    if (!policy.fail_open) RunEachOutcome(table, Before::kNothing, /*no_effect=*/true);
  }

  int cells_ = 0;
  // The cells with wrong results.
  int wrong_ = 0;

 private:
  void RunEachOutcome(Table& table, Before before, bool no_effect) {
    for (int code = 0; code <= static_cast<int>(grpc::StatusCode::UNAUTHENTICATED); ++code) {
      Cell cell;
      cell.policy = table.policy();
      cell.before = before;
      cell.outcome = static_cast<grpc::StatusCode>(code);
      cell.no_effect = no_effect;
      const std::string seen = ToString(Play(table, cell, ++cells_).Steps());
      const std::string right = ToString(OutcomeModel(cell).Steps());
      // Not all of a thousand.
      if (seen != right && ++wrong_ <= 10) {
        ADD_FAILURE() << NameOf(cell) << "\nseen:\n" << seen << "right:\n" << right;
      }
    }
  }
};

TEST_P(GuardTable, EveryCellMatchesTheContract) {
  for (const bool require_recovery : {false, true}) {
    for (const auto reply : {MethodPolicy::Reply::kFull, MethodPolicy::Reply::kStatusOnly,
                             MethodPolicy::Reply::kReference}) {
      for (const bool fail_open : {false, true}) {
        RunAll({GetParam().lists, require_recovery, reply, fail_open});
      }
    }
  }
  EXPECT_EQ(wrong_, 0) << "of " << cells_;
  RecordProperty("cells", cells_);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, GuardTable,
                         ::testing::Values(Column{Api::kSync, CodeLists::kDefault},
                                           Column{Api::kSync, CodeLists::kNone},
                                           Column{Api::kSync, CodeLists::kOwn},
                                           Column{Api::kCallback, CodeLists::kDefault},
                                           Column{Api::kCallback, CodeLists::kNone},
                                           Column{Api::kCallback, CodeLists::kOwn}),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
