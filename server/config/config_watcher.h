#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/access/access_control.h"
#include "server/config/config_file.h"
#include "server/observability/observer.h"
#include "server/service/stop_latch.h"
#include "server/tenants/tenants.h"

namespace idempotency::internal {

// Reading a few small files once per second costs little, and a revoked caller is out soon.
inline constexpr absl::Duration kConfigRefresh = absl::Seconds(1);

// Applies the configuration file's changes: it reads the file, and the files that it names, every
// kConfigRefresh until destruction. A file that is not valid changes nothing and is reported once.
// Thread-compatible.
class ConfigWatcher {
 public:
  // Applies a part of the configuration, on the watcher's thread. An error changes nothing, and
  // the file is then not valid as a whole.
  using Further = std::function<absl::Status(const LoadedConfig&)>;

  // `loaded` is the content that applies now. `access`, `tenants` and `observer` outlive it.
  ConfigWatcher(std::string path, const LoadedConfig& loaded, AccessControl& access,
                Tenants& tenants, Observer& observer, Further further = nullptr);
  ~ConfigWatcher();
  ConfigWatcher(const ConfigWatcher&) = delete;
  ConfigWatcher& operator=(const ConfigWatcher&) = delete;

 private:
  void Watch();
  void Refresh();

  const std::string path_;
  AccessControl& access_;
  Tenants& tenants_;
  Observer& observer_;
  const Further further_;
  Sha256Digest current_;
  // Why the file is not used now, or "".
  std::string complaint_;
  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_
