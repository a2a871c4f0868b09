#ifndef IDEMPOTENCY_CORE_AFTER_ANSWERS_H_
#define IDEMPOTENCY_CORE_AFTER_ANSWERS_H_

#include "absl/functional/any_invocable.h"

namespace idempotency::internal {

// A scope on a thread that delivers answers of the store. A receiver may keep work here that the
// thread does at the end of the scope, once it has delivered the others: an application's handler,
// which then starts without another thread's wake-up.
//
// The work may block. So a process has one kept work at a time, and only a thread that others can
// do without opens a scope: a handler that blocks then delays no answer, and the next handlers
// start elsewhere.
//
// Not thread-safe: belongs to its thread.
class AfterAnswers {
 public:
  // A scope within another one does nothing.
  AfterAnswers();
  // Does the kept work.
  ~AfterAnswers();
  AfterAnswers(const AfterAnswers&) = delete;
  AfterAnswers& operator=(const AfterAnswers&) = delete;

  // Takes `work`, which must not throw, for the end of this thread's scope. False, and `work`
  // stays: there is no scope, or another work of the process is kept or not done.
  static bool Keep(absl::AnyInvocable<void()>& work);

 private:
  const bool outermost_;
  absl::AnyInvocable<void()> work_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_AFTER_ANSWERS_H_
