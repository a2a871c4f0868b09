#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"

#include "client/connection.h"
#include "core/mutex.h"

namespace idempotency {

// A Connection over a small model of the service's decisions, in memory, that
// can be told to fail. It refuses what the service refuses (core/request_rules.h),
// and what could not be parsed at the other end. Leases never run out by themselves. Thread-safe.
class FakeConnection final : public Connection {
 public:
  enum class Operation { kReserve, kComplete, kRelease, kExtend };

  struct Record {
    v1::RecordState state = v1::RECORD_STATE_UNSPECIFIED;
    std::string reservation_token;
    std::string request_token;
    std::uint32_t attempt = 0;
    std::string digest;
    v1::Reply reply;
    std::string release_reason;
    // What the release asked for; it never runs out by itself, and holds nobody.
    absl::Duration release_pause;
    google::protobuf::Map<std::string, std::string> labels;
    v1::LeaseExpiry on_lease_expiry = v1::LEASE_EXPIRY_UNSPECIFIED;
    bool recovering = false;
    std::string checkpoint;
  };

  // Answers what is held back with STORE_UNAVAILABLE.
  ~FakeConnection() override;

  void Reserve(const v1::ReserveRequest& request, Deadline deadline,
               Callback<v1::ReserveResponse> done) override;
  void Complete(const v1::CompleteRequest& request, Deadline deadline,
                Callback<v1::CompleteResponse> done) override;
  void Release(const v1::ReleaseRequest& request, Deadline deadline,
               Callback<v1::ReleaseResponse> done) override;
  void Extend(const v1::ExtendRequest& request, Deadline deadline,
              Callback<v1::ExtendResponse> done) override;
  void Get(const v1::GetRequest& request, Deadline deadline,
           Callback<v1::GetResponse> done) override;

  // The next `times` calls of `operation` fail with `status` and do nothing;
  // with `after` they do their work first.
  void Fail(Operation operation, absl::Status status, int times, bool after = false);
  // Calls of `operation` are answered by AnswerHeld() from now on.
  void Hold(Operation operation);
  // Lets calls through again, those held back first.
  void AnswerHeld(Operation operation);
  // Every later Reserve gets this answer.
  void SetVerdict(v1::ReserveResponse verdict);
  // Another attempt takes the only record over.
  void TakeOver();
  // The attempt of the only record ended without a trace, under
  // REQUIRE_RECOVERY.
  void LoseTrace();

  int calls(Operation operation) const;
  // False if there were not so many within 10 s.
  bool WaitForCalls(Operation operation, int calls) const;
  // The record of the only key; empty if there is none.
  Record record() const;
  // The last Reserve, the last Extend.
  v1::ReserveRequest last_reserve() const;
  v1::ExtendRequest last_extend() const;
  bool WaitForState(v1::RecordState state) const;

 private:
  struct Failure {
    absl::Status status;
    bool after = false;
  };
  struct Lane {
    int calls = 0;
    bool held = false;
    std::deque<Failure> failures;
    std::deque<std::function<void()>> waiting;
  };

  // Refuses `request`, or has it answered by `work`, or as the test has said.
  template <typename Request, typename Response>
  void Ask(Operation operation, const Request& request,
           std::function<absl::StatusOr<Response>()> work, Callback<Response> done);
  template <typename Response>
  void Answer(Operation operation, std::function<absl::StatusOr<Response>()> work,
              Callback<Response> done);
  absl::StatusOr<v1::ReserveResponse> Decide(const v1::ReserveRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RESERVATION_LOST unless the token holds the record.
  absl::StatusOr<Record*> Held(const v1::RecordKey& key, const std::string& token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::map<Operation, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Record> records_ ABSL_GUARDED_BY(mutex_);
  v1::ReserveRequest last_reserve_ ABSL_GUARDED_BY(mutex_);
  v1::ExtendRequest last_extend_ ABSL_GUARDED_BY(mutex_);
  v1::ReserveResponse verdict_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_CONNECTION_H_
