#ifndef IDEMPOTENCY_CORE_TESTING_ANSWERS_H_
#define IDEMPOTENCY_CORE_TESTING_ANSWERS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "core/mutex.h"

namespace idempotency::internal {

// Collects the arguments of callbacks, and waits for them. Thread-safe.
template <typename Answer>
class Answers {
 public:
  // A callback that adds its argument here.
  std::function<void(Answer)> Sink() {
    return [this](Answer answer) { Add(std::move(answer)); };
  }

  void Add(Answer answer) {
    MutexLock lock(mutex_);
    answers_.push_back(std::move(answer));
    arrived_.NotifyAll();
  }

  // All answers, once there are at least `count`, or after 20 s.
  std::vector<Answer> Await(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (answers_.size() < count && arrived_.WaitUntil(lock, deadline)) {
    }
    return answers_;
  }

  std::size_t size() {
    MutexLock lock(mutex_);
    return answers_.size();
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_TESTING_ANSWERS_H_
