#ifndef IDEMPOTENCY_SERVER_PROCESS_HEALTH_PROBE_H_
#define IDEMPOTENCY_SERVER_PROCESS_HEALTH_PROBE_H_

#include <string>

#include "absl/status/status.h"

#include "server/process/command_line.h"

namespace idempotency::internal {

// `idempotencyd health`: OK if the server answers SERVING in time. Otherwise UNAVAILABLE
// with its answer, or the lack of one; INVALID_ARGUMENT for a file that cannot be read,
// and the errors of FindServingProcess(), which reads `proc`.
absl::Status ProbeHealth(const HealthOptions& options, const std::string& proc = "/proc");

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_HEALTH_PROBE_H_
