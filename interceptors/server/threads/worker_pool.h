#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "grpc_idempotency/server_guard/guard_threads.h"

namespace idempotency::internal {

// Threads for work that may block. A piece of work that blocks holds one thread
// and nothing else: as long as there are fewer threads than the limit, the next
// piece gets another one. Threads are begun when they are needed, and stay.
// Thread-safe.
class WorkerPool {
 public:
  enum class Outcome {
    kTaken,    // it will run
    kFull,     // it will not: too much work waits, or no thread could be begun
    kStopped,  // it will not: Stop() was called
  };

  // `name` names the threads ("guard-ledger-1", ...; the system keeps 15
  // characters).
  WorkerPool(std::string name, int max_threads,
             std::size_t max_waiting = GuardThreads::kMaxWaiting);
  // Stop().
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `work` on one of the threads. Work begins in the order given. Does not
  // block. `work` must not throw.
  Outcome Run(std::function<void()> work);

  // Refuses new work, runs what was taken, and joins. Not from a worker. Safe to
  // call twice.
  void Stop();

 private:
  void Loop(const std::string& name);
  // False once there will be no more work.
  bool Next(std::function<void()>& work);
  // Sees to it that a thread comes for what waits, if there may be one more.
  void Summon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const std::size_t max_threads_;
  const std::size_t max_waiting_;

  Mutex mutex_;
  CondVar work_arrived_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  // Threads that wait for work.
  std::size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  // A thread was begun or woken and has not come yet. It sends for the next one
  // itself, so that a burst of short work wakes few threads.
  bool summoned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_POOL_H_
