#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "core/mutex.h"
#include "grpc_idempotency/server_guard/guard_threads.h"

namespace idempotency::internal {

// Threads for tasks that may block. A blocking task occupies one thread and nothing else: while
// there are fewer threads than the limit, the next task gets another one. Threads start when
// they are needed, and stay. Thread-safe.
class WorkerPool {
 public:
  enum class Outcome {
    kTaken,    // the task will run
    kFull,     // it will not: too many tasks wait, or no thread could be started
    kStopped,  // it will not: Stop() was called
  };

  // Any number of tasks waits: for tasks that something else limits.
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  // `name` names the threads ("guard-ledger-1", ...; the system keeps 15
  // characters).
  WorkerPool(std::string name, int max_threads,
             std::size_t max_waiting = GuardThreads::kMaxWaiting);
  // Stop().
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `work` on one of the threads. Tasks start in the order given. Does not block. `work`
  // must not throw.
  Outcome Run(absl::AnyInvocable<void()> work) {
    return Run(std::move(work), /*if_stopped=*/nullptr);
  }
  // The same, but `if_stopped`, which must not block, runs instead of a task that has not started
  // when Stop() is called: thousands may wait, and each may block.
  Outcome Run(absl::AnyInvocable<void()> work, absl::AnyInvocable<void()> if_stopped);

  // Refuses new tasks, runs the accepted ones, and joins. Not from a worker. Safe to call
  // twice.
  void Stop();

 private:
  struct Task {
    absl::AnyInvocable<void()> work;
    // Empty if `work` runs in any case.
    absl::AnyInvocable<void()> if_stopped;
  };
  struct Worker {
    std::thread thread;
    CondVar woken_changed;
    // Guarded by mutex_.
    bool woken = false;
  };

  void Loop(const std::shared_ptr<Worker>& self, const std::string& name);
  // False if there are no more tasks.
  bool Next(const std::shared_ptr<Worker>& self, absl::AnyInvocable<void()>& work);
  // Until `self` is woken.
  void WaitForWork(const std::shared_ptr<Worker>& self, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes an idle thread for the waiting tasks, or starts one, if one more is allowed. The caller
  // wakes the thread taken (null: none) once it has released the mutex, for which the woken
  // thread would otherwise wait again at once. It shares the ownership of the thread's state: a
  // spurious wake-up may let the thread end, and the pool with it, before the caller wakes it.
  std::shared_ptr<Worker> Summon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const std::size_t max_threads_;
  const std::size_t max_waiting_;

  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> work_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);
  // The threads that wait for work. The last one to arrive is woken first: its stack and its
  // allocator's memory are the likeliest to be in the processor's caches.
  std::vector<std::shared_ptr<Worker>> idle_ ABSL_GUARDED_BY(mutex_);
  // A thread was started or woken and has not arrived yet. It summons the next one itself, so
  // that a burst of short tasks wakes few threads.
  bool summoned_ ABSL_GUARDED_BY(mutex_) = false;
};

// Runs `task`, which something must do, on a thread of `pool`: here after the pool's stop, and if
// the process cannot start the first of its threads.
template <typename Task>
void RunThereOrHere(WorkerPool& pool, const Task& task,
                    absl::AnyInvocable<void()> if_stopped = nullptr) {
  if (pool.Run(task, std::move(if_stopped)) != WorkerPool::Outcome::kTaken) task();
}

// The pools that run the application's code: one for each kind. Thread-safe.
struct WorkerPools {
  explicit WorkerPools(const GuardThreads& threads = {})
      : handlers("guard-run", threads.handlers),
        replies("guard-reply", threads.replies, WorkerPool::kNoLimit),
        cancellations("guard-cancel", threads.replies, WorkerPool::kNoLimit),
        ledger("guard-ledger", threads.ledger),
        recovery("guard-recover", threads.recovery),
        loaders("guard-load", threads.loaders) {}

  // Stops each of them. Safe to call twice.
  void Stop() {
    handlers.Stop();
    recovery.Stop();
    ledger.Stop();
    loaders.Stop();
    // The others make replies.
    replies.Stop();
    cancellations.Stop();
  }

  // Handlers of callback methods.
  WorkerPool handlers;
  // The application's interceptors, for replies of callback methods. Their number is that of the
  // calls, which are in memory already.
  WorkerPool replies;
  // The same for calls that are cancelled: no reply may delay what stops a handler.
  WorkerPool cancellations;
  // Lookups to the completion ledger.
  WorkerPool ledger;
  WorkerPool recovery;
  WorkerPool loaders;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOL_H_
