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

// Warns where a callee forgets a step before its parent is forgotten: an
// attempt that is resumed in between gets KEY_EXPIRED from it. Retentions of
// two services can be compared nowhere else. Thread-safe.
class RetentionWatch {
 public:
  explicit RetentionWatch(ApplicationLog log = ApplicationLog()) : log_(std::move(log)) {}

  // `expires` is what the step's reply says (`idempotency-expires`, RFC 3339);
  // anything else says nothing. Logs once for a method. True if it did.
  bool Look(const std::string& method, std::string_view expires, absl::Time parent_expires);

 private:
  const ApplicationLog log_;
  Mutex mutex_;
  absl::flat_hash_set<std::string> warned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_RETENTION_WATCH_H_
