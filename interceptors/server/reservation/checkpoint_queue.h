#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CHECKPOINT_QUEUE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CHECKPOINT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/backoff.h"
#include "core/mutex.h"
#include "core/pass_key.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency::internal {

// The queue of one reservation's checkpoints for the store: sent one at a time, in the order
// given, each repeated until it is answered or its caller got STORE_UNAVAILABLE. Thread-safe.
class CheckpointQueue final : public std::enable_shared_from_this<CheckpointQueue> {
 public:
  using Stored = std::function<void(absl::Status)>;
  // One try; `answered` is called once, on any thread.
  using Send = std::function<void(const std::string& progress, Stored answered)>;

  // A handler that waits for each has one in the queue; the limit is for those that do not
  // wait.
  static constexpr std::size_t kMaxWaiting = 16;

  static std::shared_ptr<CheckpointQueue> Make(Scheduler& scheduler, absl::Duration timeout,
                                               Send send);

  // `done` is called once, on any thread, possibly inside Push: with the
  // store's answer, STORE_UNAVAILABLE after the timeout, or OVERLOADED at once.
  void Push(std::string progress, Stored done);

  // For Make() alone.
  CheckpointQueue(PassKey<CheckpointQueue> key, Scheduler& scheduler, absl::Duration timeout,
                  Send send);

 private:
  struct Waiting {
    std::uint64_t id = 0;
    std::string progress;
    Stored done;
    Scheduler::TaskId timer = 0;
  };

  // Sends the first in the queue, if there is one.
  void SendFirst();
  void OnAnswer(std::uint64_t id, const absl::Status& answer);
  // True if the first is `id` and will be sent again.
  bool Repeat(std::uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(std::uint64_t id, const absl::Status& answer);

  Scheduler& scheduler_;
  const absl::Duration timeout_;
  const Send send_;

  Mutex mutex_;
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // A try is in progress, or scheduled.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CHECKPOINT_QUEUE_H_
