#include "server/operation/operation_span.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/clock.h"

#include "grpc_idempotency/errors.h"
#include "tracing/trace_context.h"

namespace idempotency::internal {

namespace {

// The codes for which the semantic conventions of RPC mark a server's span as failed.
bool IsServersFault(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kUnimplemented || code == absl::StatusCode::kInternal ||
         code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDataLoss;
}

}  // namespace

std::string_view TraceparentLabel(const v1::ReserveRequest& request) {
  const auto label = request.labels().find(std::string(kTraceparentName));
  return label == request.labels().end() ? std::string_view() : std::string_view(label->second);
}

std::unique_ptr<Span> BeginOperationSpan(std::string_view traceparent) {
  if (traceparent.empty()) return nullptr;
  const std::optional<TraceContext> parent = ParseTraceparent(traceparent);
  if (!parent.has_value() || !parent->sampled) return nullptr;
  auto span = std::make_unique<Span>();
  span->parent = *parent;
  span->id = NewSpanId();
  return span;
}

void DescribeRecord(const RecordKey& key, const RecordId& id, Span* span) {
  if (span == nullptr) return;
  span->attributes.emplace_back("idempotency.namespace", key.name_space);
  span->attributes.emplace_back("idempotency.operation", key.operation);
  span->attributes.emplace_back("idempotency.record_id", id.ToString());
}

void DescribeVerdict(const Verdict& verdict, Span* span) {
  if (span == nullptr) return;
  span->attributes.emplace_back("idempotency.verdict", std::string(VerdictName(verdict)));
  if (const auto* const reserved = std::get_if<Reserved>(&verdict); reserved != nullptr) {
    span->attributes.emplace_back("idempotency.attempt",
                                  static_cast<std::int64_t>(reserved->attempt));
  }
  const auto* const replay = std::get_if<Replay>(&verdict);
  if (replay == nullptr) return;
  const auto first = replay->labels.find(std::string(kTraceparentName));
  if (first == replay->labels.end()) return;
  if (const std::optional<TraceContext> attempt = ParseTraceparent(first->second)) {
    span->links.push_back({*attempt, "first_attempt"});
  }
}

void EndOperationSpan(OperationKind kind, const absl::Status& status, absl::Duration duration,
                      Span& span) {
  const std::string method(OperationName(kind));
  span.name = "idempotency.v1.IdempotencyService/" + method;
  span.end = absl::Now();
  span.start = span.end - duration;
  span.attributes.emplace_back("rpc.system", std::string("grpc"));
  span.attributes.emplace_back("rpc.service", std::string("idempotency.v1.IdempotencyService"));
  span.attributes.emplace_back("rpc.method", method);
  span.attributes.emplace_back("rpc.grpc.status_code", static_cast<std::int64_t>(status.code()));
  if (const std::optional<Reason> reason = ReasonOf(status); reason.has_value()) {
    span.attributes.emplace_back("error.type", std::string(ReasonName(*reason)));
  }
  span.failed = IsServersFault(status.code());
}

}  // namespace idempotency::internal
