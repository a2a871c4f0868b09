#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_RETENTION_WATCH_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_RETENTION_WATCH_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

#include "core/application_log.h"
#include "core/mutex.h"

namespace idempotency::internal {

// Warns if a called service's record of a step expires before its parent's record: an attempt
// that is resumed in between gets KEY_EXPIRED for the step. No other component can compare the
// retentions of two services. Thread-safe.
class RetentionWatch {
 public:
  explicit RetentionWatch(ApplicationLog log = ApplicationLog()) : log_(std::move(log)) {}

  // `expires` is the value of `idempotency-expires` (RFC 3339) in the step's reply; any other
  // value is ignored. Logs once for a method. Returns true if it logged.
  bool Look(const std::string& method, std::string_view expires, absl::Time parent_expires);

 private:
  const ApplicationLog log_;
  Mutex mutex_;
  absl::flat_hash_set<std::string> warned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_RETENTION_WATCH_H_
