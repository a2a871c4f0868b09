#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/node_hash_map.h"

#include "core/clock.h"
#include "core/log_throttle.h"
#include "core/mutex.h"

namespace idempotency::internal {

// Admits one error per second of each of gRPC's source files to the log: any neighbour of the
// network causes some, such as failed handshakes, as often as it likes. Thread-safe.
class GrpcErrorThrottle {
 public:
  // `clock` must outlive it.
  explicit GrpcErrorThrottle(const Clock& clock = Clock::System()) : clock_(clock) {}

  // As LogThrottle::Admit(), for an error of `file`.
  std::optional<std::int64_t> Admit(std::string_view file);

 private:
  const Clock& clock_;
  Mutex mutex_;
  // As many as gRPC has files.
  absl::node_hash_map<std::string, LogThrottle> throttles_ ABSL_GUARDED_BY(mutex_);
};

// While it exists, `report` is called with gRPC's text for each TLS handshake that fails in this
// process, of servers and of clients, in place of an event of gRPC's log. gRPC has no other sign of
// it. None with GRPC_VERBOSITY=NONE, or before LogWhatGrpcLogs(). A connection that is closed
// without a TLS message, as by a load balancer that probes a port, is not reported.
class FailedHandshakeReports {
 public:
  using Report = std::function<void(std::string_view error)>;

  // `report` is called on gRPC's threads, one at a time; it returns soon and calls no gRPC.
  explicit FailedHandshakeReports(Report report);
  // Waits for a report that runs.
  ~FailedHandshakeReports();
  FailedHandshakeReports(const FailedHandshakeReports&) = delete;
  FailedHandshakeReports& operator=(const FailedHandshakeReports&) = delete;

 private:
  const Report report_;
};

// From now on gRPC's log messages become events of this log, for the life of the process; of errors
// those that GrpcErrorThrottle admits.
void LogWhatGrpcLogs();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_
