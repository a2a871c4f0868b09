#ifndef IDEMPOTENCY_SERVER_QUEUE_ADMIN_WORKER_H_
#define IDEMPOTENCY_SERVER_QUEUE_ADMIN_WORKER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/limits.h"
#include "server/queue/namespace_shares.h"

namespace idempotency::internal {

// The kind and the namespace that a call counts for.
struct AdminPlace {
  // Calls that need ADMIN, and those that only read, take turns.
  enum class Kind { kRead, kAct };
  Kind kind = Kind::kRead;
  // Whose share it is a part of: a namespace, or a caller.
  std::string owner;
};

// The one thread that waits for the store on behalf of administrators, so that they take no
// thread and at most one connection from the batcher. Thread-safe.
class AdminWorker {
 public:
  // `reserved` of the calls are never of Kind::kRead.
  explicit AdminWorker(std::size_t max_calls = limits::kMaxAdminCalls,
                       std::size_t reserved = limits::kReservedAdminCalls);
  // As Close().
  ~AdminWorker();
  AdminWorker(const AdminWorker&) = delete;
  AdminWorker& operator=(const AdminWorker&) = delete;

  // Runs `call` after those of its kind that wait. False, and nothing happens, if all places of
  // the kind are taken, if the owner has its share of them (NamespaceShares), or after Close().
  bool TryRun(AdminPlace place, std::function<void()> call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits, on the worker, between two steps of a call. False at once from Hurry() on: the call is
  // to end with what it did.
  bool Pause(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);
  // The process is about to end.
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);

  // Hurry(), then runs what waits, and ends the thread.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    AdminPlace place;
    std::function<void()> call;
  };
  // The calls of one kind.
  struct Lane {
    std::deque<Waiting> waiting;
    // The shares of the calls that wait or run.
    NamespaceShares shares;
  };

  void Run();
  Lane& LaneOf(AdminPlace::Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == AdminPlace::Kind::kAct ? acts_ : reads_;
  }
  // The places that a call of the kind may take.
  std::size_t LeftFor(AdminPlace::Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AnyWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !acts_.waiting.empty() || !reads_.waiting.empty();
  }
  // One of those that wait.
  Waiting TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::size_t max_calls_;
  const std::size_t max_reads_;
  Mutex mutex_;
  CondVar changed_;
  Lane acts_ ABSL_GUARDED_BY(mutex_);
  Lane reads_ ABSL_GUARDED_BY(mutex_);
  // The last call that was taken was of Kind::kAct.
  bool acted_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_ADMIN_WORKER_H_
