#include "server/process/logging_metrics.h"

#include <cstdint>
#include <optional>

#include "core/absl_view.h"
#include "server/observability/log.h"

namespace idempotency::internal {

void LoggingMetrics::MismatchSeen(std::string_view name_space, std::string_view operation,
                                  const RecordId& id) {
  Metrics::MismatchSeen(name_space, operation, id);
  const std::optional<std::int64_t> left_out = mismatches_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "key reused for another request",
      {{"namespace", AbslView(name_space)},
       {"operation", AbslView(operation)},
       {"record", id.ToString()},
       {"left_out", *left_out}});
}

void LoggingMetrics::ConnectionRefused(ConnectionRefusal refusal) {
  Metrics::ConnectionRefused(refusal);
  const std::optional<std::int64_t> left_out = refused_connections_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "connection refused",
      {{"reason", AbslView(RefusalName(refusal))}, {"left_out", *left_out}});
}

void LoggingMetrics::StoreFailed(OperationKind kind, const absl::Status& status) {
  Metrics::StoreFailed(kind, status);
  const std::optional<std::int64_t> left_out = store_failures_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "store failed",
      {{"method", AbslView(OperationName(kind))},
       {"error", status.message()},
       {"left_out", *left_out}});
}

}  // namespace idempotency::internal
