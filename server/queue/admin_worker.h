#ifndef IDEMPOTENCY_SERVER_QUEUE_ADMIN_WORKER_H_
#define IDEMPOTENCY_SERVER_QUEUE_ADMIN_WORKER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

// The one thread that waits for the store on behalf of administrators, so that they take no
// thread and at most one connection from the batcher. Thread-safe.
class AdminWorker {
 public:
  explicit AdminWorker(std::size_t max_calls = limits::kMaxAdminCalls);
  // As Close().
  ~AdminWorker();
  AdminWorker(const AdminWorker&) = delete;
  AdminWorker& operator=(const AdminWorker&) = delete;

  // Runs `call` after those that wait. False, and nothing happens, if `max_calls` wait or run, or
  // after Close().
  bool TryRun(std::function<void()> call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits, on the worker, between two steps of a call. False at once from Hurry() on: the call is
  // to end with what it did.
  bool Pause(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);
  // The process is about to end.
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);

  // Hurry(), then runs what waits, and ends the thread.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();

  const std::size_t max_calls_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> calls_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_ADMIN_WORKER_H_
