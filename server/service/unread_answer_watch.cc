#include "server/service/unread_answer_watch.h"

namespace idempotency::internal {

void UnreadAnswerWatch::Start() {
  MutexLock lock(mutex_);
  if (stopped_ || thread_.has_value()) return;
  thread_.emplace("answer-watch", interval_, [this] {
    service_.CheckCalls();
    return interval_;
  });
}

void UnreadAnswerWatch::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  thread_.reset();
}

}  // namespace idempotency::internal
