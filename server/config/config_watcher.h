#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_

#include <string>
#include <thread>

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
  // `loaded` is the content that applies now. The last three outlive it.
  ConfigWatcher(std::string path, const LoadedConfig& loaded, AccessControl& access,
                Tenants& tenants, Observer& observer);
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
  Sha256Digest current_;
  // Why the file is not used now, or "".
  std::string complaint_;
  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_WATCHER_H_
