#include "embedded/direct_connection.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"

#include "client/connection/caller_callback.h"
#include "client/connection/message_texts.h"
#include "client/connection/transport_error_reporter.h"
#include "core/application_log.h"
#include "core/mutex.h"
#include "embedded/call_deadlines.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "server/operation/operation_of.h"
#include "server/operation/pending_operation.h"
#include "server/queue/in_flight_waiters.h"

namespace idempotency::internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Deadlines are kept to this.
constexpr SteadyClock::duration kDeadlineGrain = std::chrono::milliseconds(1);

// The service refuses a larger one that arrives as a message.
absl::Status CheckSize(const google::protobuf::Message& request) {
  if (request.ByteSizeLong() <= limits::kMaxMessageBytes) return absl::OkStatus();
  return InvalidField("request", absl::StrCat("is over the ", limits::kMaxMessageBytes,
                                              " bytes that idempotencyd accepts in one message"));
}

}  // namespace

// The calls of a connection that are not answered. Thread-safe.
class DirectConnection::Calls {
 public:
  class Call;
  template <typename Response>
  class CallFor;

  Calls(std::shared_ptr<void> service, Operations& operations)
      : service_(std::move(service)), operations_(operations) {}

  Operations& operations() { return operations_; }
  const ApplicationLog& log() const { return log_; }
  // As for a call over a channel that ended with `status`.
  absl::Status ErrorFor(const grpc::Status& status) { return errors_.Failed(status); }

  // False once the connection is being closed: the call is not added.
  bool Add(std::shared_ptr<Call> call);
  // The service has answered.
  void Remove(std::uint64_t id);
  // Answers those whose deadline has passed, each once. Returns the next deadline.
  SteadyClock::time_point FailExpired();
  // Answers all, adds no others, and returns when the last callback has returned.
  void FailAll();
  absl::Status Closing() {
    return ErrorFor(grpc::Status(grpc::StatusCode::CANCELLED, "the connection is being closed"));
  }

 private:
  // By the order in which they were made.
  using Table = absl::btree_map<std::uint64_t, std::shared_ptr<Call>>;

  // Around a callback that the service's answer calls.
  void EnterCallback();
  void LeaveCallback();

  // Operations use it until they are over.
  const std::shared_ptr<void> service_;
  Operations& operations_;
  const ApplicationLog log_;
  TransportErrorReporter errors_{log_};

  Mutex mutex_;
  CondVar callback_returned_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  Table calls_ ABSL_GUARDED_BY(mutex_);
  CallDeadlines deadlines_ ABSL_GUARDED_BY(mutex_);
  std::size_t running_callbacks_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One call. The table, or the thread that ends it, owns it; the service uses it until its answer.
class DirectConnection::Calls::Call {
 public:
  explicit Call(SteadyClock::time_point deadline) : deadline_(deadline) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  SteadyClock::time_point deadline() const { return deadline_; }
  void set_id(std::uint64_t id) { id_ = id; }
  std::uint64_t id() const { return id_; }

  // Answers its caller, if it has none yet, in place of the service.
  virtual void Fail(const absl::Status& status) = 0;
  // Its operation has begun, and waits for a running attempt perhaps.
  virtual void Begun() = 0;
  // Its caller was answered: it need not wait any longer.
  virtual void StopWaiting() = 0;

 private:
  const SteadyClock::time_point deadline_;
  // Set before the service gets it.
  std::uint64_t id_ = 0;
};

template <typename Response>
class DirectConnection::Calls::CallFor final : public Call, public PendingResponse<Response> {
 public:
  CallFor(std::shared_ptr<Calls> calls, OperationKind kind, SteadyClock::time_point deadline,
          Callback<Response> done)
      : Call(deadline),
        PendingResponse<Response>(kind, calls->operations().clock().Monotonic(), deadline),
        calls_(std::move(calls)),
        done_(std::move(done)) {}

  void Fail(const absl::Status& status) override {
    if (Callback<Response> done = TakeDone(); done != nullptr) {
      AnswerCaller<Response>(calls_->log(), done, status);
    }
  }

  void Begun() override {
    bool stop = false;
    {
      MutexLock lock(mutex_);
      if (over_) return;
      waiting_ = this->waiting();
      stop = done_ == nullptr;
    }
    if (stop) StopWaiting();
  }

  void StopWaiting() override {
    InFlightWaiters::WaiterPtr waiting;
    {
      MutexLock lock(mutex_);
      waiting = waiting_;
    }
    calls_->operations().StopWaiting(waiting);
  }

 private:
  Response& response() override { return response_.emplace(); }

  void Finish(const absl::Status& status) override {
    // The table may be the last owner of this.
    const std::shared_ptr<Calls> calls = calls_;
    // Before the caller's callback is taken: the end of the connection waits for it then.
    calls->EnterCallback();
    {
      MutexLock lock(mutex_);
      over_ = true;
      waiting_.reset();
    }
    if (Callback<Response> done = TakeDone(); done != nullptr) Answer(status, done);
    calls->LeaveCallback();
    calls->Remove(this->id());
  }

  void Answer(const absl::Status& status, const Callback<Response>& done) {
    // The reply's part of the memory budget, until the caller has it.
    const MemoryBudget::Hold hold = this->TakeHold();
    if (!status.ok()) {
      return AnswerCaller<Response>(calls_->log(), done, calls_->ErrorFor(ToGrpcStatus(status)));
    }
    if (!response_.has_value()) response_.emplace();
    AnswerCaller<Response>(calls_->log(), done, *std::move(response_));
  }

  Callback<Response> TakeDone() {
    Callback<Response> done;
    MutexLock lock(mutex_);
    done.swap(done_);
    return done;
  }

  const std::shared_ptr<Calls> calls_;
  Mutex mutex_;
  // Empty once the caller is answered.
  Callback<Response> done_ ABSL_GUARDED_BY(mutex_);
  // The service has answered.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  InFlightWaiters::WaiterPtr waiting_ ABSL_GUARDED_BY(mutex_);
  // Used by the answering thread alone.
  std::optional<Response> response_;
};

bool DirectConnection::Calls::Add(std::shared_ptr<Call> call) {
  MutexLock lock(mutex_);
  if (closing_) return false;
  call->set_id(++last_id_);
  deadlines_.Add(call->deadline(), last_id_);
  calls_.emplace(last_id_, std::move(call));
  return true;
}

void DirectConnection::Calls::Remove(std::uint64_t id) {
  std::shared_ptr<Call> removed;
  MutexLock lock(mutex_);
  const auto found = calls_.find(id);
  removed = std::move(found->second);
  deadlines_.Remove(removed->deadline(), id);
  calls_.erase(found);
}

void DirectConnection::Calls::EnterCallback() {
  MutexLock lock(mutex_);
  ++running_callbacks_;
}

void DirectConnection::Calls::LeaveCallback() {
  MutexLock lock(mutex_);
  if (--running_callbacks_ == 0) callback_returned_.NotifyAll();
}

SteadyClock::time_point DirectConnection::Calls::FailExpired() {
  const SteadyClock::time_point now = SteadyClock::now();
  SteadyClock::time_point next;
  std::vector<std::shared_ptr<Call>> expired;
  {
    MutexLock lock(mutex_);
    for (const std::uint64_t id : deadlines_.TakeExpired(now)) expired.push_back(calls_.at(id));
    next = deadlines_.next();
  }
  const absl::Status passed =
      ErrorFor(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline has passed"));
  for (const std::shared_ptr<Call>& call : expired) {
    call->Fail(passed);
    call->StopWaiting();
  }
  return next == SteadyClock::time_point::max() ? next : std::max(next, now + kDeadlineGrain);
}

void DirectConnection::Calls::FailAll() {
  std::vector<std::shared_ptr<Call>> unanswered;
  {
    MutexLock lock(mutex_);
    // A callback may begin a call, which would be answered after the end of the connection.
    closing_ = true;
    for (const auto& [id, call] : calls_) unanswered.push_back(call);
  }
  const absl::Status closing = Closing();
  for (const std::shared_ptr<Call>& call : unanswered) {
    call->Fail(closing);
    call->StopWaiting();
  }
  MutexLock lock(mutex_);
  while (running_callbacks_ > 0) callback_returned_.Wait(lock);
}

DirectConnection::DirectConnection(std::shared_ptr<void> service, Operations& operations)
    : operations_(operations),
      calls_(std::make_shared<Calls>(std::move(service), operations)),
      timer_("embedded-timer", [calls = calls_.get()] { return calls->FailExpired(); }) {}

DirectConnection::~DirectConnection() {
  timer_.Stop();
  calls_->FailAll();
}

void DirectConnection::Send(AnyConnectionCall call, Deadline deadline) {
  std::visit([this, deadline](auto& typed) { Begin(std::move(typed), deadline); }, call);
}

template <typename Request, typename Response>
void DirectConnection::Begin(ConnectionCall<Request, Response> call, Deadline deadline) {
  absl::Status valid = ValidateTexts(call.request);
  if (valid.ok()) valid = CheckSize(call.request);
  if (!valid.ok()) return AnswerCaller<Response>(calls_->log(), call.done, std::move(valid));
  const auto made = std::make_shared<Calls::CallFor<Response>>(calls_, OperationOf<Request>::kKind,
                                                               deadline, std::move(call.done));
  if (!calls_->Add(made)) return made->Fail(calls_->Closing());
  timer_.NoLaterThan(deadline);
  (operations_.*OperationOf<Request>::kBegin)(call.request, *made, /*group=*/nullptr);
  made->Begun();
}

}  // namespace idempotency::internal
