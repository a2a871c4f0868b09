#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_MISCONFIGURED_PROXIES_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_MISCONFIGURED_PROXIES_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "core/mutex.h"

namespace idempotency::internal {

// Connections of proxies that do not state who made a response. That shows only when one has come
// back, so without this every call would run and end with an unknown outcome: for a while, what
// arrives on such a connection is refused instead. Thread-safe.
class MisconfiguredProxies {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Long enough that few calls run, short enough that a corrected proxy is soon served.
  static constexpr std::chrono::seconds kRefusal{30};
  // The maximum number of connections that are remembered; others are not refused.
  static constexpr std::size_t kMaxConnections = 1024;

  void Add(const std::string& peer, Time now);
  bool Has(const std::string& peer, Time now);

 private:
  Mutex mutex_;
  std::map<std::string, Time> until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_MISCONFIGURED_PROXIES_H_
