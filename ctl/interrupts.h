#ifndef IDEMPOTENCY_CTL_INTERRUPTS_H_
#define IDEMPOTENCY_CTL_INTERRUPTS_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "core/mutex.h"

namespace idempotency::internal {

// SIGINT and SIGTERM as an event, for a command that runs until it is interrupted. The second
// signal ends the process at once, with the status that a shell gives for it. Thread-safe.
class Interrupts {
 public:
  // Keeps both signals from ending the process: blocks them in the calling thread and in those that
  // it starts afterwards. The threads of a channel are among them only if it is made later.
  static void Hold();

  // After Hold(). `on_interrupt` is called once, on a thread of its own.
  explicit Interrupts(std::function<void()> on_interrupt);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool interrupted() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits; false once interrupted.
  bool Pause(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> on_interrupt_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_INTERRUPTS_H_
