#include "client/testing/fake_connection.h"

#include <array>
#include <chrono>
#include <utility>
#include <variant>

#include "client/connection/deadline_timer.h"
#include "core/request_rules.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

constexpr char kRecordId[] = "01890a5d-ac96-774b-bcce-b302099a8057";
constexpr std::int64_t kCreatedAt = 1688000000;
constexpr std::int64_t kExpiresAt = 4102444800;  // 2100-01-01

// As in the service: first it parses, which strings that are not UTF-8 prevent.
template <typename Request>
absl::Status Refusal(const Request& request) {
  Request arrived;
  if (!arrived.ParseFromString(request.SerializeAsString())) {
    return InvalidField("request", "cannot be parsed");
  }
  return ValidateRequest(arrived);
}

absl::Status NotInTime() {
  return MakeError(Reason::kStoreUnavailable, "not answered before the deadline");
}

absl::Status Lost() { return MakeError(Reason::kReservationLost, "lost"); }

// As the service answers for a token whose record does not exist.
absl::Status LostWithRecord() {
  ErrorDetails details;
  details.metadata["cause"] = "RECORD_EXPIRED";
  return MakeError(Reason::kReservationLost, "lost", std::move(details));
}

std::vector<Fingerprint> FingerprintsOf(const v1::ReserveRequest& request) {
  std::vector<Fingerprint> fingerprints;
  for (const v1::Fingerprint& sent : request.fingerprints()) {
    fingerprints.push_back(FromProto(sent));
  }
  return fingerprints;
}

// Also the same grant again, for a reserved record.
v1::Reserved GrantTo(FakeConnection::Record& record, const v1::ReserveRequest& request) {
  if (record.attempt == 0) {
    record.on_lease_expiry = request.on_lease_expiry();
    record.labels = request.labels();
    record.fingerprints = FingerprintsOf(request);
    record.digest = record.fingerprints.front().digest;
  }
  if (record.state != v1::RECORD_STATE_RESERVED) {
    ++record.attempt;
    record.reservation_token = Uuid::Random().ToString();
    record.recovering = record.state == v1::RECORD_STATE_UNKNOWN;
  }
  record.state = v1::RECORD_STATE_RESERVED;
  record.request_token = request.request_token();
  v1::Reserved reserved;
  reserved.set_recovering(record.recovering);
  reserved.set_checkpoint(record.checkpoint);
  reserved.set_reservation_token(record.reservation_token);
  reserved.set_attempt(record.attempt);
  *reserved.mutable_labels() = record.labels;
  *reserved.mutable_lease_remaining() = request.lease();
  reserved.mutable_expires_at()->set_seconds(kExpiresAt);
  reserved.mutable_created_at()->set_seconds(kCreatedAt);
  return reserved;
}

}  // namespace

template <typename Response>
struct FakeConnection::Waiting {
  Callback<Response> done;
  TimerId timer = 0;
};

// Tasks by the system's time.
class FakeConnection::TimerThread {
 public:
  TimerId RunAt(Deadline when, std::function<void()> task) {
    TimerId id = 0;
    {
      MutexLock lock(mutex_);
      id = ++last_id_;
      tasks_[{when, id}] = std::move(task);
    }
    timer_.NoLaterThan(when);
    return id;
  }
  void Cancel(TimerId id) {
    MutexLock lock(mutex_);
    for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
      if (task->first.second != id) continue;
      tasks_.erase(task);
      return;
    }
  }
  // Waits for the running task, and drops the others.
  void Stop() { timer_.Stop(); }

 private:
  Deadline RunDue() {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(mutex_);
        if (tasks_.empty()) return Deadline::max();
        const auto first = tasks_.begin();
        const Deadline when = first->first.first;
        if (when > std::chrono::steady_clock::now()) return when;
        task = std::move(first->second);
        tasks_.erase(first);
      }
      task();
    }
  }

  Mutex mutex_;
  TimerId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<Deadline, TimerId>, std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  DeadlineTimer timer_{"fake-timer", [this] { return RunDue(); }};
};

FakeConnection::FakeConnection()
    : own_timer_(std::make_unique<TimerThread>()),
      timers_{[] { return std::chrono::steady_clock::now(); },
              [this](Deadline when, std::function<void()> task) {
                return own_timer_->RunAt(when, std::move(task));
              },
              [this](TimerId timer) { own_timer_->Cancel(timer); }} {}

FakeConnection::FakeConnection(Timers timers) : timers_(std::move(timers)) {}

FakeConnection::~FakeConnection() {
  for (const Operation operation : {Operation::kReserve, Operation::kComplete, Operation::kRelease,
                                    Operation::kExtend, Operation::kGet}) {
    Fail(operation, MakeError(Reason::kStoreUnavailable, "closed"), 1000);
    AnswerHeld(operation);
  }
  if (own_timer_ != nullptr) own_timer_->Stop();
}

template <typename Response>
void FakeConnection::Answer(Waiting<Response>& waiting, absl::StatusOr<Response> answer) {
  Callback<Response> done;
  {
    MutexLock lock(mutex_);
    done.swap(waiting.done);
    timers_.cancel(waiting.timer);
  }
  if (done != nullptr) done(std::move(answer));
}

template <typename Response>
void FakeConnection::WatchDeadline(const std::shared_ptr<Waiting<Response>>& waiting,
                                   Deadline deadline) {
  if (deadline == Deadline::max()) return;
  waiting->timer =
      timers_.run_at(deadline, [this, waiting] { Answer<Response>(*waiting, NotInTime()); });
}

template <typename Response>
absl::StatusOr<Response> FakeConnection::Work(
    Script& script, const std::function<absl::StatusOr<Response>()>& work) {
  if (script.failures.empty()) return work();
  const Failure failure = std::move(script.failures.front());
  script.failures.pop_front();
  if (failure.after) work().IgnoreError();
  return failure.status;
}

template <typename Request, typename Response>
void FakeConnection::Execute(Operation operation, const Request& request, Deadline deadline,
                             std::function<absl::StatusOr<Response>()> work,
                             Callback<Response> done) {
  const absl::Status refusal = Refusal(request);
  if (!refusal.ok()) work = [refusal] { return refusal; };
  absl::StatusOr<Response> answer = NotInTime();
  {
    MutexLock lock(mutex_);
    Script& script = scripts_[operation];
    ++script.calls;
    changed_.NotifyAll();
    // A call whose deadline has passed is not sent.
    const bool in_time = timers_.now() < deadline;
    if (in_time && script.gate != Gate::kBeforeTheStore) answer = Work(script, work);
    if (in_time && script.gate != Gate::kOpen) {
      auto waiting = std::make_shared<Waiting<Response>>();
      waiting->done = std::move(done);
      WatchDeadline(waiting, deadline);
      const bool executed = script.gate == Gate::kBehindTheStore;
      script.waiting.push_back([this, operation, work, waiting, executed, answer]() mutable {
        if (!executed) {
          MutexLock relock(mutex_);
          answer = Work(scripts_[operation], work);
          changed_.NotifyAll();
        }
        Answer(*waiting, std::move(answer));
      });
      return;
    }
  }
  done(std::move(answer));
}

void FakeConnection::Send(AnyConnectionCall call, Deadline deadline) {
  static constexpr std::array kOperations = {Operation::kReserve, Operation::kComplete,
                                             Operation::kRelease, Operation::kExtend,
                                             Operation::kGet};
  const std::size_t kind = call.index();
  std::visit([&](auto& typed) { Serve(kOperations.at(kind), typed, deadline); }, call);
}

template <typename Call>
void FakeConnection::Serve(Operation operation, Call& call, Deadline deadline) {
  Execute<typename Call::Request, typename Call::Response>(
      operation, call.request, deadline,
      [this, request = call.request]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return Decide(request); },
      std::move(call.done));
}

absl::StatusOr<v1::ReserveResponse> FakeConnection::Decide(const v1::ReserveRequest& request) {
  last_reserve_ = request;
  if (verdict_.verdict_case() != v1::ReserveResponse::VERDICT_NOT_SET) return verdict_;
  v1::ReserveResponse response;
  response.set_record_id(kRecordId);
  Record& record = records_[request.record_key().SerializeAsString()];
  const FingerprintMatch match =
      record.attempt == 0 ? FingerprintMatch::kSame
                          : CompareFingerprints(record.fingerprints, FingerprintsOf(request));
  if (match == FingerprintMatch::kNothingInCommon) {
    return MakeError(Reason::kFingerprintUnknown, "no fingerprint version in common");
  }
  if (match == FingerprintMatch::kDifferent) {
    response.mutable_mismatch()->set_attempt(record.attempt);
  } else if (record.state == v1::RECORD_STATE_COMPLETED) {
    v1::Replay& replay = *response.mutable_replay();
    *replay.mutable_reply() = record.reply;
    replay.mutable_expires_at()->set_seconds(kExpiresAt);
    replay.set_attempt(record.attempt);
    *replay.mutable_labels() = record.labels;
  } else if (record.state == v1::RECORD_STATE_UNKNOWN && !request.recover()) {
    v1::OutcomeUnknown& unknown = *response.mutable_outcome_unknown();
    unknown.set_attempt(record.attempt);
    unknown.set_cause(record.release_reason.empty() ? v1::OutcomeUnknown::CAUSE_LEASE_EXPIRED
                                                    : v1::OutcomeUnknown::CAUSE_RELEASED);
    unknown.set_reason(record.release_reason);
    unknown.mutable_since()->set_seconds(kCreatedAt);
  } else if (record.state == v1::RECORD_STATE_RESERVED &&
             record.request_token != request.request_token()) {
    response.mutable_in_flight()->set_attempt(record.attempt);
    response.mutable_in_flight()->mutable_retry_after()->set_nanos(5'000'000);
  } else if (record.state == v1::RECORD_STATE_RELEASED &&
             record.request_token == request.request_token()) {
    return Lost();
  } else {
    *response.mutable_reserved() = GrantTo(record, request);
  }
  return response;
}

absl::StatusOr<FakeConnection::Record*> FakeConnection::Held(const v1::RecordKey& key,
                                                             const std::string& token) {
  const auto found = records_.find(key.SerializeAsString());
  if (found == records_.end()) return LostWithRecord();
  if (found->second.reservation_token != token) return Lost();
  return &found->second;
}

absl::StatusOr<v1::CompleteResponse> FakeConnection::Decide(const v1::CompleteRequest& request) {
  const auto held = Held(request.record_key(), request.reservation_token());
  if (!held.ok()) return held.status();
  if ((*held)->state == v1::RECORD_STATE_RELEASED) return Lost();
  // A reply that differs from the stored one.
  if ((*held)->state == v1::RECORD_STATE_COMPLETED &&
      (*held)->reply.SerializeAsString() != request.reply().SerializeAsString()) {
    return Lost();
  }
  (*held)->state = v1::RECORD_STATE_COMPLETED;
  (*held)->reply = request.reply();
  v1::CompleteResponse response;
  response.mutable_expires_at()->set_seconds(kExpiresAt);
  return response;
}

absl::StatusOr<v1::ReleaseResponse> FakeConnection::Decide(const v1::ReleaseRequest& request) {
  const auto held = Held(request.record_key(), request.reservation_token());
  if (!held.ok()) return held.status();
  if ((*held)->state != v1::RECORD_STATE_RESERVED) return Lost();
  (*held)->state = request.outcome() == v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN
                       ? v1::RECORD_STATE_UNKNOWN
                       : v1::RECORD_STATE_RELEASED;
  (*held)->release_reason = request.reason();
  (*held)->release_pause =
      absl::Seconds(request.pause().seconds()) + absl::Nanoseconds(request.pause().nanos());
  return v1::ReleaseResponse();
}

absl::StatusOr<v1::ExtendResponse> FakeConnection::Decide(const v1::ExtendRequest& request) {
  const auto held = Held(request.record_key(), request.reservation_token());
  if (!held.ok()) return held.status();
  if ((*held)->state != v1::RECORD_STATE_RESERVED) return Lost();
  last_extend_ = request;
  if (!request.checkpoint().empty()) (*held)->checkpoint = request.checkpoint();
  v1::ExtendResponse response;
  *response.mutable_lease_remaining() = request.lease();
  return response;
}

absl::StatusOr<v1::GetResponse> FakeConnection::Decide(const v1::GetRequest& request) {
  if (records_.count(request.record_key().SerializeAsString()) == 0) {
    return MakeError(Reason::kRecordNotFound, "there is no such record");
  }
  return v1::GetResponse();
}

void FakeConnection::Fail(Operation operation, absl::Status status, int times, bool after) {
  MutexLock lock(mutex_);
  for (int i = 0; i < times; ++i) scripts_[operation].failures.push_back({status, after});
}

void FakeConnection::Recover() {
  MutexLock lock(mutex_);
  for (auto& [operation, script] : scripts_) script.failures.clear();
}

void FakeConnection::Hold(Operation operation) {
  MutexLock lock(mutex_);
  scripts_[operation].gate = Gate::kBeforeTheStore;
}

void FakeConnection::HoldAnswers(Operation operation) {
  MutexLock lock(mutex_);
  scripts_[operation].gate = Gate::kBehindTheStore;
}

void FakeConnection::AnswerHeld(Operation operation) {
  std::deque<std::function<void()>> waiting;
  {
    MutexLock lock(mutex_);
    scripts_[operation].gate = Gate::kOpen;
    waiting.swap(scripts_[operation].waiting);
  }
  for (auto& answer : waiting) answer();
}

void FakeConnection::SetVerdict(v1::ReserveResponse verdict) {
  MutexLock lock(mutex_);
  verdict_ = std::move(verdict);
}

void FakeConnection::TakeOver() {
  MutexLock lock(mutex_);
  for (auto& [key, record] : records_) {
    ++record.attempt;
    record.reservation_token = Uuid::Random().ToString();
    record.request_token = Uuid::Random().ToString();
  }
}

void FakeConnection::LoseRecord() {
  MutexLock lock(mutex_);
  records_.clear();
}

void FakeConnection::LoseTrace() {
  MutexLock lock(mutex_);
  for (auto& [key, record] : records_) record.state = v1::RECORD_STATE_UNKNOWN;
}

int FakeConnection::calls(Operation operation) const {
  MutexLock lock(mutex_);
  const auto script = scripts_.find(operation);
  return script == scripts_.end() ? 0 : script->second.calls;
}

bool FakeConnection::WaitForCalls(Operation operation, int calls) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mutex_);
  while (true) {
    const auto script = scripts_.find(operation);
    if (script != scripts_.end() && script->second.calls >= calls) return true;
    if (!changed_.WaitUntil(lock, deadline)) return false;
  }
}

FakeConnection::Record FakeConnection::record() const {
  MutexLock lock(mutex_);
  return records_.empty() ? Record() : records_.begin()->second;
}

v1::ReserveRequest FakeConnection::last_reserve() const {
  MutexLock lock(mutex_);
  return last_reserve_;
}

v1::ExtendRequest FakeConnection::last_extend() const {
  MutexLock lock(mutex_);
  return last_extend_;
}

bool FakeConnection::WaitForState(v1::RecordState state) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mutex_);
  while (records_.empty() || records_.begin()->second.state != state) {
    if (!changed_.WaitUntil(lock, deadline)) return false;
  }
  return true;
}

}  // namespace idempotency::internal
