#ifndef IDEMPOTENCY_TRACING_TESTING_KEPT_SPANS_H_
#define IDEMPOTENCY_TRACING_TESTING_KEPT_SPANS_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
#include "tracing/tracer.h"

namespace idempotency::internal::testing {

// A tracer that keeps its spans. Thread-safe.
class KeptSpans final : public Tracer {
 public:
  void Record(Span span) override {
    const MutexLock lock(mutex_);
    spans_.push_back(std::move(span));
  }
  std::vector<Span> spans() const {
    const MutexLock lock(mutex_);
    return spans_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TRACING_TESTING_KEPT_SPANS_H_
