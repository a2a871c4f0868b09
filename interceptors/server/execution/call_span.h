#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_CALL_SPAN_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_CALL_SPAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/guard_tracer.h"
#include "interceptors/server/execution/guarded_operation.h"

namespace idempotency::internal {

// A span of a guarded call, from its start to its end. Thread-compatible.
class CallSpan {
 public:
  // nullopt unless the operation has a tracer and the call's `traceparent` is sampled.
  static std::optional<CallSpan> Start(const GuardedOperation& operation, std::string_view name,
                                       std::string_view traceparent);

  // The `traceparent` of its children.
  std::string traceparent() const;

  // A value that is "" or 0 is left out.
  void Set(std::string_view name, std::string_view value);
  void Set(std::string_view name, std::int64_t value);
  // Adds a link to the span of `traceparent`, if that is valid.
  void Link(std::string_view traceparent);
  // Passes the span to the tracer.
  void End(const GuardedOperation& operation, const absl::Status& status) &&;

 private:
  CallSpan() = default;

  GuardSpan span_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_CALL_SPAN_H_
