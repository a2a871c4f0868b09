#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_VERDICT_REPORT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_VERDICT_REPORT_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/execution/call_span.h"
#include "interceptors/server/execution/guarded_operation.h"

namespace idempotency::internal {

// The verdict of one call, for the application's hook and tracer. Thread-compatible.
class VerdictReport {
 public:
  // Starts the span. `operation` outlives it; `traceparent` is the call's.
  VerdictReport(const GuardedOperation& operation, const std::string& traceparent);

  // The span's `traceparent`, for the daemon's spans; "" if the call is not sampled.
  const std::string& span_traceparent() const { return span_traceparent_; }

  // Calls the hook and ends the span, unless an earlier call has. Without a verdict `verdict` is
  // empty.
  void Once(const v1::ReserveResponse& verdict, const absl::Status& status);

 private:
  const GuardedOperation& operation_;
  bool reported_ = false;
  // The call's, for the hook.
  std::string traceparent_;
  // Until the verdict, of a sampled call.
  std::optional<CallSpan> span_;
  std::string span_traceparent_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_VERDICT_REPORT_H_
