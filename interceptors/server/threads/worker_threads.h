#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_THREADS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_THREADS_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace idempotency {

// Threads for what may block and is not on the path of an ordinary call: asking
// a completion ledger, the application's recovery handlers and reply loaders.
// They are begun with the first piece of work. Thread-safe.
class WorkerThreads {
 public:
  // 4: what they do waits for a database, not for a processor, and is rare.
  static constexpr int kThreads = 4;

  WorkerThreads() = default;
  // Stop().
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // Runs `work` soon, on one of the threads. False after Stop(): it will not
  // run. `work` must not throw.
  bool Run(std::function<void()> work);

  // Refuses new work, lets what was taken run, and joins. Not from a worker.
  void Stop();

 private:
  void Loop();

  Mutex mutex_;
  CondVar work_arrived_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_WORKER_THREADS_H_
