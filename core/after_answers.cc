#include "core/after_answers.h"

#include <atomic>
#include <utility>

namespace idempotency::internal {
namespace {

thread_local AfterAnswers* current = nullptr;
// One flag for the process: a work is kept, or is being done.
std::atomic<bool> taken{false};

}  // namespace

AfterAnswers::AfterAnswers() : outermost_(current == nullptr) {
  if (outermost_) current = this;
}

AfterAnswers::~AfterAnswers() {
  if (!outermost_) return;
  // What the work keeps is not for this scope.
  current = nullptr;
  if (work_ == nullptr) return;
  work_();
  // Its captured objects must be destroyed before the next work.
  work_ = nullptr;
  taken.store(false, std::memory_order_release);
}

bool AfterAnswers::Keep(absl::AnyInvocable<void()>& work) {
  if (current == nullptr || taken.exchange(true, std::memory_order_acquire)) return false;
  current->work_ = std::move(work);
  return true;
}

}  // namespace idempotency::internal
