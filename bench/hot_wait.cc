#include "bench/hot_wait.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "core/mutex.h"

namespace idempotency::internal::bench {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int kMaxWaitSeconds = 8;

}  // namespace

// The answers so far. Thread-safe.
class HotWait::Round {
 public:
  explicit Round(int expected) : outstanding_(expected) {}

  void Granted(absl::StatusOr<std::string> token) {
    MutexLock lock(mutex_);
    token_ = std::move(token);
    granted_ = true;
    changed_.NotifyAll();
  }
  absl::StatusOr<std::string> AwaitGrant() {
    MutexLock lock(mutex_);
    while (!granted_) changed_.Wait(lock);
    return token_;
  }
  void Answered(const absl::Status& status) { EndOne(status, last_answer_); }
  void Acknowledged(const absl::Status& status) { EndOne(status, acknowledged_); }
  absl::StatusOr<absl::Duration> AwaitEnd() {
    MutexLock lock(mutex_);
    while (outstanding_ > 0) changed_.Wait(lock);
    if (!failure_.ok()) return failure_;
    return absl::FromChrono(std::max(Time::duration::zero(), last_answer_ - acknowledged_));
  }

 private:
  void EndOne(const absl::Status& status, Time& at) {
    const Time now = std::chrono::steady_clock::now();
    MutexLock lock(mutex_);
    at = std::max(at, now);
    failure_.Update(status);
    --outstanding_;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  absl::StatusOr<std::string> token_ ABSL_GUARDED_BY(mutex_);
  bool granted_ ABSL_GUARDED_BY(mutex_) = false;
  int outstanding_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Time acknowledged_;
  Time last_answer_;
};

absl::StatusOr<absl::Duration> HotWait::Run(std::uint64_t number) {
  v1::ReserveRequest request = requests_.Reserve(number);
  Round round(options_.waiters + 1);
  connection_.Reserve(request, requests_.Deadline(), [&round](auto answer) {
    round.Granted(RecordRequests::GrantedToken(std::move(answer)));
  });
  absl::StatusOr<std::string> token = round.AwaitGrant();
  if (!token.ok()) return token.status();
  request.clear_request_token();
  request.mutable_max_wait()->set_seconds(kMaxWaitSeconds);
  for (int i = 0; i < options_.waiters; ++i) {
    connection_.Reserve(request, requests_.Deadline(), [this, &round](const auto& answer) {
      round.Answered(requests_.CheckReplay(answer));
    });
  }
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(options_.execution));
  connection_.Complete(requests_.Complete(request.record_key(), *std::move(token)),
                       requests_.Deadline(),
                       [&round](const auto& answer) { round.Acknowledged(answer.status()); });
  return round.AwaitEnd();
}

}  // namespace idempotency::internal::bench
