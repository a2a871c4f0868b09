#ifndef IDEMPOTENCY_CLIENT_TESTING_FAKE_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_TESTING_FAKE_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/fingerprint.h"

namespace idempotency::internal {

// A Connection to a small in-memory model of the service's decisions that a test can make fail
// or delay. It refuses the requests that the service refuses (core/request_rules.h), and those
// that the other end could not parse. A call is answered by its deadline, with
// STORE_UNAVAILABLE if the store has not answered; its request may still take effect. Leases
// never expire by themselves. Thread-safe.
class FakeConnection final : public Connection {
 public:
  enum class Operation { kReserve, kComplete, kRelease, kExtend, kGet };

  struct Record {
    v1::RecordState state = v1::RECORD_STATE_UNSPECIFIED;
    std::string reservation_token;
    std::string request_token;
    std::uint32_t attempt = 0;
    // The digest of the first fingerprint.
    std::string digest;
    std::vector<Fingerprint> fingerprints;
    v1::Reply reply;
    std::string release_reason;
    // The pause of the release; it never passes by itself, and blocks no caller.
    absl::Duration release_pause;
    google::protobuf::Map<std::string, std::string> labels;
    v1::LeaseExpiry on_lease_expiry = v1::LEASE_EXPIRY_UNSPECIFIED;
    bool recovering = false;
    std::string checkpoint;
  };

  // Deadlines by the system's time, on its own thread.
  FakeConnection();
  // Deadlines by `scheduler`, which outlives it: it has Now(), RunAt() and Cancel(), as the guard's
  // Scheduler has, which no part below the guard may include.
  template <typename Scheduler>
  explicit FakeConnection(Scheduler& scheduler)
      : FakeConnection(Timers{[&scheduler] { return scheduler.Now(); },
                              [&scheduler](Deadline when, std::function<void()> task) {
                                return scheduler.RunAt(when, std::move(task));
                              },
                              [&scheduler](TimerId timer) { scheduler.Cancel(timer); }}) {}
  // Answers the held calls with STORE_UNAVAILABLE.
  ~FakeConnection() override;

  void Send(AnyConnectionCall call, Deadline deadline) override;

  // The next `times` calls of `operation` fail with `status` and do nothing;
  // with `after` they do their work first.
  void Fail(Operation operation, absl::Status status, int times, bool after = false);
  // Removes all failures. Call it before closing a guard whose store was unavailable: the guard
  // repeats its requests, and waits until they are answered.
  void Recover();
  // From now on calls of `operation` wait in front of the store. Their requests take effect in
  // AnswerHeld(), also if their callers have been answered meanwhile.
  void Hold(Operation operation);
  // The same, but their requests take effect at once: only the answers wait.
  void HoldAnswers(Operation operation);
  // Lets calls through again, the held ones first.
  void AnswerHeld(Operation operation);
  // Every later Reserve gets this answer.
  void SetVerdict(v1::ReserveResponse verdict);
  // Another attempt takes the only record over.
  void TakeOver();
  // The store crashed and lost the only record, which was not durable yet.
  void LoseRecord();
  // The attempt of the only record ended without an answer, under REQUIRE_RECOVERY.
  void LoseTrace();

  int calls(Operation operation) const;
  // False if there were fewer within 10 s.
  bool WaitForCalls(Operation operation, int calls) const;
  // The record of the only key; empty if there is none.
  Record record() const;
  // The last Reserve, the last Extend.
  v1::ReserveRequest last_reserve() const;
  v1::ExtendRequest last_extend() const;
  bool WaitForState(v1::RecordState state) const;

 private:
  using TimerId = std::uint64_t;
  class TimerThread;
  struct Timers {
    std::function<Deadline()> now;
    // Runs a task once, at that time or soon after.
    std::function<TimerId(Deadline, std::function<void()>)> run_at;
    // Prevents a task that has not started, and does not wait for one that has.
    std::function<void(TimerId)> cancel;
  };

  explicit FakeConnection(Timers timers);

  struct Failure {
    absl::Status status;
    bool after = false;
  };
  enum class Gate { kOpen, kBeforeTheStore, kBehindTheStore };
  struct Script {
    int calls = 0;
    Gate gate = Gate::kOpen;
    std::deque<Failure> failures;
    std::deque<std::function<void()>> waiting;
  };
  // A call that its deadline may end first.
  template <typename Response>
  struct Waiting;

  // The store's work for each request.
  absl::StatusOr<v1::ReserveResponse> Decide(const v1::ReserveRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::CompleteResponse> Decide(const v1::CompleteRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ReleaseResponse> Decide(const v1::ReleaseRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ExtendResponse> Decide(const v1::ExtendRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the record exists; its contents are not read.
  absl::StatusOr<v1::GetResponse> Decide(const v1::GetRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RESERVATION_LOST unless the token holds the record.
  absl::StatusOr<Record*> Held(const v1::RecordKey& key, const std::string& token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  template <typename Call>
  void Serve(Operation operation, Call& call, Deadline deadline);

  // Refuses `request`, or answers it with `work`, or as the test has set.
  template <typename Request, typename Response>
  void Execute(Operation operation, const Request& request, Deadline deadline,
               std::function<absl::StatusOr<Response>()> work, Callback<Response> done);
  // The store's answer.
  template <typename Response>
  absl::StatusOr<Response> Work(Script& script,
                                const std::function<absl::StatusOr<Response>()>& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers it at its deadline, unless it was answered before.
  template <typename Response>
  void WatchDeadline(const std::shared_ptr<Waiting<Response>>& waiting, Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does nothing for one that has been answered.
  template <typename Response>
  void Answer(Waiting<Response>& waiting, absl::StatusOr<Response> answer);

  // Null if the test has its own scheduler.
  const std::unique_ptr<TimerThread> own_timer_;
  const Timers timers_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::map<Operation, Script> scripts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Record> records_ ABSL_GUARDED_BY(mutex_);
  v1::ReserveRequest last_reserve_ ABSL_GUARDED_BY(mutex_);
  v1::ExtendRequest last_extend_ ABSL_GUARDED_BY(mutex_);
  v1::ReserveResponse verdict_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_TESTING_FAKE_CONNECTION_H_
