#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_OUTSTANDING_WORK_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_OUTSTANDING_WORK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include "core/mutex.h"

namespace idempotency::internal {

// Counts the guard's outstanding work for the store, so that its destructor can wait for it.
// Thread-safe.
class OutstandingWork : public std::enable_shared_from_this<OutstandingWork> {
 public:
  // Keeps the count alive, so that a hold may be dropped at any time.
  struct Ender {
    std::shared_ptr<OutstandingWork> work;
    void operator()(OutstandingWork* /*same*/) const { work->End(); }
  };
  // One task; it is done when its hold is destroyed.
  using Hold = std::unique_ptr<OutstandingWork, Ender>;
  Hold Begin();

  // False if work was left at `deadline`.
  bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline);

 private:
  void End();

  Mutex mutex_;
  CondVar idle_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_OUTSTANDING_WORK_H_
