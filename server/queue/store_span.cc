#include "server/queue/store_span.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/clock.h"

#include "grpc_idempotency/errors.h"
#include "tracing/tracer.h"

namespace idempotency::internal {
namespace {

std::string OperationOf(std::string_view method, std::size_t batch_size) {
  if (batch_size == 1) return std::string(method);
  return method.empty() ? "BATCH" : "BATCH " + std::string(method);
}

std::string ErrorOf(const absl::Status& status) {
  if (const std::optional<Reason> reason = ReasonOf(status); reason.has_value()) {
    return std::string(ReasonName(*reason));
  }
  return absl::StatusCodeToString(status.code());
}

}  // namespace

void StoreSpan::Link(const TraceContext& trace) {
  if (span_ == nullptr) {
    span_ = std::make_unique<Span>();
    span_->parent = trace;
    return;
  }
  if (span_->links.size() < kMaxSpanLinks) span_->links.push_back({trace, "batch"});
}

void StoreSpan::Record(std::string_view system, std::string_view operation, std::size_t batch_size,
                       absl::Duration took, const absl::Status& status, Tracer& tracer) && {
  Span& span = *span_;
  span.kind = SpanKind::kClient;
  span.id = NewSpanId();
  span.name = OperationOf(operation, batch_size);
  span.end = absl::Now();
  span.start = span.end - took;
  span.attributes.emplace_back("db.system", std::string(system));
  span.attributes.emplace_back("db.operation.name", span.name);
  // The conventions: never 1.
  if (batch_size > 1) {
    span.attributes.emplace_back("db.operation.batch.size", static_cast<std::int64_t>(batch_size));
  }
  if (!status.ok()) span.attributes.emplace_back("error.type", ErrorOf(status));
  span.failed = !status.ok();
  tracer.Record(std::move(span));
}

}  // namespace idempotency::internal
