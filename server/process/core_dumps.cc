#include "server/process/core_dumps.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

bool LimitSize() {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return false;
  limit.rlim_cur = 0;
  return setrlimit(RLIMIT_CORE, &limit) == 0;
}

// No kind of memory is part of a dump (core(5)).
bool LeaveMemoryOut() {
  std::ofstream filter("/proc/self/coredump_filter");
  filter << "0" << std::flush;
  return filter.good();
}

}  // namespace

void DisableCoreDumps() {
  errno = 0;
  const bool limited = LimitSize();
  if (LeaveMemoryOut() && limited) return;
  Log(LogLevel::kWarn, "core dumps cannot be disabled", {{"error", std::strerror(errno)}});
}

}  // namespace idempotency::internal
