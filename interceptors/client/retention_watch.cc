#include "interceptors/client/retention_watch.h"

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"

namespace idempotency::internal {

bool RetentionWatch::Look(const std::string& method, std::string_view expires,
                          absl::Time parent_expires) {
  absl::Time step_expires;
  if (!absl::ParseTime(absl::RFC3339_full, AbslView(expires), &step_expires, nullptr)) return false;
  // Replies contain whole seconds, rounded down.
  if (step_expires + absl::Seconds(1) >= parent_expires) return false;
  {
    MutexLock lock(mutex_);
    if (!warned_.insert(method).second) return false;
  }
  log_.Write(
      LogSeverity::kWarning,
      absl::StrCat(method, ": the step's record expires ",
                   absl::FormatDuration(parent_expires - step_expires),
                   " before that of the operation that calls it: an attempt resumed after that "
                   "gets KEY_EXPIRED from it. Its retention must be at least its parent's"));
  return true;
}

}  // namespace idempotency::internal
