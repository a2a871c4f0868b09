#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_

#include <cstdint>
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

// From now on gRPC's log messages become events of this log, for the life of the process; of errors
// those that GrpcErrorThrottle admits.
void LogWhatGrpcLogs();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_
