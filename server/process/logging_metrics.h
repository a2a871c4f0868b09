#ifndef IDEMPOTENCY_SERVER_PROCESS_LOGGING_METRICS_H_
#define IDEMPOTENCY_SERVER_PROCESS_LOGGING_METRICS_H_

#include <functional>
#include <string>
#include <string_view>

#include "core/log_throttle.h"
#include "server/observability/metrics.h"

namespace idempotency::internal {

// Metrics that also logs events that need attention: a client that reuses keys or that no rule
// permits, a store that fails, connections over a limit. Thread-safe.
class LoggingMetrics final : public Metrics {
 public:
  void MismatchSeen(std::string_view name_space, std::string_view operation,
                    const RecordId& id) override;
  void CallerRefused(const RefusedCaller& caller) override;
  // One line for each.
  void AdminActed(const AdminAct& act) override;
  void ConnectionRefused(ConnectionRefusal refusal) override;
  // `error` is gRPC's text. `recent_peers` lists the connections of which the failed one is one; it
  // takes a moment, and is called for a line only.
  void HandshakeFailed(std::string_view error, const std::function<std::string()>& recent_peers);
  void CallRefused(CallRefusal refusal) override;
  void StoreFailed(OperationKind kind, const RecordId& record, const absl::Status& status) override;

 private:
  LogThrottle mismatches_;
  // Of identities of the configuration, and of unknown callers: a flood of those, who need no
  // credential for it, hides none of these.
  LogThrottle refused_identities_;
  LogThrottle refused_strangers_;
  LogThrottle store_failures_;
  LogThrottle refused_connections_;
  LogThrottle failed_handshakes_;
  LogThrottle refused_calls_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_LOGGING_METRICS_H_
