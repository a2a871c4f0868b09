#ifndef IDEMPOTENCY_SERVER_QUEUE_STORE_SPAN_H_
#define IDEMPOTENCY_SERVER_QUEUE_STORE_SPAN_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "tracing/tracer.h"

namespace idempotency::internal {

// The span of one store call, which serves operations of several traces: a child of the first
// sampled operation's span, with links to those of the others, as in OpenTelemetry's conventions
// for batches. Without a sampled operation it is empty, and costs no memory. Thread-compatible.
class StoreSpan {
 public:
  // One more operation of the call. Null: its trace is not sampled.
  void AddOperation(const TraceContext* trace) {
    if (trace != nullptr) Link(*trace);
  }
  bool empty() const { return span_ == nullptr; }

  // The call is over. `operation` is the method's name, or empty for a call of several methods;
  // `status` is OK unless the store failed; `system` is the database's name in the conventions.
  // Only for a span that is not empty.
  void Record(std::string_view system, std::string_view operation, std::size_t batch_size,
              absl::Duration took, const absl::Status& status, Tracer& tracer) &&;

 private:
  void Link(const TraceContext& trace);

  std::unique_ptr<Span> span_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_STORE_SPAN_H_
