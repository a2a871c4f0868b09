// The span of an operation. It names nothing of the key but what metrics and logs have too.
#ifndef IDEMPOTENCY_SERVER_OPERATION_OPERATION_SPAN_H_
#define IDEMPOTENCY_SERVER_OPERATION_OPERATION_SPAN_H_

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/observability/operation_kind.h"
#include "server/store/verdict.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

// The value of the label `traceparent`, which is the trace of a guarded call; empty without one.
std::string_view TraceparentLabel(const v1::ReserveRequest& request);

// nullptr unless `traceparent` is valid and its trace is sampled.
std::unique_ptr<Span> BeginOperationSpan(std::string_view traceparent);

// Without effect if `span` is null.
void DescribeRecord(const RecordKey& key, const RecordId& id, Span* span);
void DescribeVerdict(const Verdict& verdict, Span* span);

// Completes the span of an operation that ends now, `duration` after it arrived.
void EndOperationSpan(OperationKind kind, const absl::Status& status, absl::Duration duration,
                      Span& span);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_OPERATION_SPAN_H_
