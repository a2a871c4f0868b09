#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/access/access_control.h"
#include "server/config/config_file.h"
#include "server/config/config_safeguards.h"
#include "server/observability/observer.h"
#include "server/service/periodic_thread.h"
#include "server/tenants/tenants.h"

namespace idempotency::internal {

// Reading a few small files once per second costs little, and a revoked caller is out soon.
inline constexpr absl::Duration kConfigRefresh = absl::Seconds(1);

// Applies the configuration file's changes: it reads the file, and the files that it names, every
// kConfigRefresh until destruction. A change applies once two readings in a row had the same
// content: what is written of a file may be valid before the rest is. A file that is not valid
// changes nothing and is reported once. Thread-safe.
class ConfigWatcher {
 public:
  // Applies a part of the configuration, on the watcher's thread. An error changes nothing, and
  // the file is then not valid as a whole.
  using Further = std::function<absl::Status(const LoadedConfig&)>;

  // `loaded` is the content that applies now. `access`, `tenants` and `observer` outlive it.
  ConfigWatcher(std::string path, const LoadedConfig& loaded, AccessControl& access,
                Tenants& tenants, Observer& observer, Further further = nullptr,
                absl::Duration refresh = kConfigRefresh);
  ~ConfigWatcher() = default;
  ConfigWatcher(const ConfigWatcher&) = delete;
  ConfigWatcher& operator=(const ConfigWatcher&) = delete;

  // Reads the files now, as the thread does every `refresh`.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Applies what the files have, unless that applies already or is new since the last reading.
  absl::Status Adopt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Apply(LoadedConfig loaded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unless `lost` is empty.
  void WarnOf(absl::string_view event, absl::string_view what,
              const std::vector<std::string>& lost) const;

  const std::string path_;
  AccessControl& access_;
  Tenants& tenants_;
  Observer& observer_;
  const Further further_;

  Mutex mutex_;
  Sha256Digest current_ ABSL_GUARDED_BY(mutex_);
  ConfigSafeguards safeguards_ ABSL_GUARDED_BY(mutex_);
  // The digest of the last content that was read, if it does not apply.
  std::optional<Sha256Digest> seen_ ABSL_GUARDED_BY(mutex_);
  // Why the file is not used now, or "".
  std::string complaint_ ABSL_GUARDED_BY(mutex_);

  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_
