#include "server/process/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "server/limits.h"
#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

// The kernel's own default for the most that any process may have (fs.nr_open).
constexpr rlim_t kMaxDescriptors = 1024 * 1024;

rlimit Read() {
  rlimit limit{};
  // With these arguments it cannot fail.
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

std::int64_t Number(rlim_t limit) {
  return static_cast<std::int64_t>(std::min(limit, kMaxDescriptors));
}

}  // namespace

DescriptorLimit DescriptorLimit::Current() { return DescriptorLimit(Number(Read().rlim_cur)); }

DescriptorLimit DescriptorLimit::Raise() {
  const rlimit before = Read();
  const rlimit raised{before.rlim_max, before.rlim_max};
  if (before.rlim_cur != before.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    Log(LogLevel::kWarn, "cannot raise the limit of open descriptors",
        {{"descriptors", Number(before.rlim_cur)}, {"error", std::strerror(errno)}});
  }
  const DescriptorLimit now = Current();
  Log(LogLevel::kInfo, "descriptors",
      {{"soft", Number(before.rlim_cur)}, {"now", now.descriptors()}});
  if (now.descriptors() < limits::kFewDescriptors) {
    Log(LogLevel::kWarn, "few descriptors: connections above the limit are refused",
        {{"descriptors", now.descriptors()},
         {"connections", now.ForConnections()},
         {"advice", "raise LimitNOFILE (systemd), ulimits.nofile (compose) or `ulimit -n`"}});
  }
  return now;
}

int DescriptorLimit::ForConnections(int listeners) const {
  const std::int64_t reserved =
      std::min<std::int64_t>(limits::kReservedDescriptors, descriptors_ / 2);
  return static_cast<int>(std::max<std::int64_t>((descriptors_ - reserved) / listeners, 1));
}

}  // namespace idempotency::internal
