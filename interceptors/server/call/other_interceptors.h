#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_OTHER_INTERCEPTORS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_OTHER_INTERCEPTORS_H_

#include <utility>

#include "absl/functional/any_invocable.h"

#include "core/after_answers.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {

// The application's interceptors, which follow the guard's own. They may block, and the calls of
// all others wait for a thread that delivers the store's answers: such a thread must not run them.
// Thread-safe once the server is started.
class OtherInterceptors {
 public:
  // `threads`, which refuses no number of waiting replies, outlives it.
  explicit OtherInterceptors(WorkerPool& threads) : threads_(threads) {}

  // There are some. Before the server is started.
  void Follow() { follow_ = true; }
  bool follow() const { return follow_; }

  // Does `send`, which sends a part of a reply, and must not throw: here if there are no other
  // interceptors, otherwise on a thread that they may block. Here also after the threads' stop, and
  // if the process cannot start the first of them: a reply must be sent.
  template <typename Send>
  void Run(const Send& send) const {
    if (!follow_) {
      send();
      return;
    }
    absl::AnyInvocable<void()> elsewhere = send;
    if (AfterAnswers::Keep(elsewhere)) return;
    RunThereOrHere(threads_, send);
  }

 private:
  WorkerPool& threads_;
  bool follow_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_OTHER_INTERCEPTORS_H_
