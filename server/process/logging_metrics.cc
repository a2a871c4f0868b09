#include "server/process/logging_metrics.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"

#include "core/absl_view.h"
#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

constexpr std::string_view ActionName(AuditAction action) {
  switch (action) {
    case AuditAction::kResolvedCompleted:
      return "RESOLVED_COMPLETED";
    case AuditAction::kResolvedReleased:
      return "RESOLVED_RELEASED";
    case AuditAction::kPurged:
      return "PURGED";
    case AuditAction::kPurgedToTombstone:
      return "PURGED_TO_TOMBSTONE";
    case AuditAction::kResealed:
      break;
  }
  return "RESEALED";
}

}  // namespace

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

void LoggingMetrics::CallerRefused(const RefusedCaller& caller) {
  Metrics::CallerRefused(caller);
  LogThrottle& throttle = caller.identity.empty() ? refused_strangers_ : refused_identities_;
  const std::optional<std::int64_t> left_out = throttle.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "caller refused",
      {{"code", absl::StatusCodeToString(caller.status.code())},
       {"identity", caller.identity},
       {"namespace", caller.name_space},
       {"peer", caller.peer},
       {"error", caller.status.message()},
       {"left_out", *left_out}});
}

void LoggingMetrics::AdminActed(const AdminAct& act) {
  Metrics::AdminActed(act);
  std::string hmac;
  if (act.key_hmac.has_value()) {
    hmac = absl::BytesToHexString(absl::string_view(
        reinterpret_cast<const char*>(act.key_hmac->data()), act.key_hmac->size()));
  }
  Log(LogLevel::kInfo, "administrator",
      {{"action", AbslView(ActionName(act.action))},
       {"actor", act.note.actor},
       {"reason", act.note.reason},
       {"forced", act.forced ? "true" : "false"},
       {"namespace", act.name_space},
       {"records", act.records.size()},
       {"record", act.records.front().ToString()},
       {"last_record", act.records.back().ToString()},
       {"key_hmac", hmac}});
}

void LoggingMetrics::ConnectionRefused(ConnectionRefusal refusal) {
  Metrics::ConnectionRefused(refusal);
  const std::optional<std::int64_t> left_out = refused_connections_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "connection refused",
      {{"reason", AbslView(RefusalName(refusal))}, {"left_out", *left_out}});
}

void LoggingMetrics::HandshakeFailed(std::string_view error,
                                     const std::function<std::string()>& recent_peers) {
  Metrics::HandshakeFailed();
  const std::optional<std::int64_t> left_out = failed_handshakes_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "handshake failed",
      {{"error", AbslView(error)}, {"recent_peers", recent_peers()}, {"left_out", *left_out}});
}

void LoggingMetrics::CallRefused(CallRefusal refusal) {
  Metrics::CallRefused(refusal);
  const std::optional<std::int64_t> left_out = refused_calls_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "call refused",
      {{"reason", AbslView(RefusalName(refusal))}, {"left_out", *left_out}});
}

void LoggingMetrics::StoreFailed(OperationKind kind, const RecordId& record,
                                 const absl::Status& status) {
  Metrics::StoreFailed(kind, record, status);
  const std::optional<std::int64_t> left_out = store_failures_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "store failed",
      {{"method", AbslView(OperationName(kind))},
       {"record", record.ToString()},
       {"error", status.message()},
       {"left_out", *left_out}});
}

}  // namespace idempotency::internal
