#include "server/process/core_dumps.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "server/observability/log.h"

namespace idempotency::internal {

void DisableCoreDumps() {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) == 0) {
    limit.rlim_cur = 0;
    if (setrlimit(RLIMIT_CORE, &limit) == 0) return;
  }
  Log(LogLevel::kWarn, "core dumps cannot be disabled", {{"error", std::strerror(errno)}});
}

}  // namespace idempotency::internal
