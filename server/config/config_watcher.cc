#include "server/config/config_watcher.h"

#include <pthread.h>

#include <memory>
#include <utility>

#include "server/observability/log.h"

namespace idempotency::internal {

ConfigWatcher::ConfigWatcher(std::string path, const LoadedConfig& loaded, AccessControl& access,
                             Tenants& tenants, Observer& observer, Further further)
    : path_(std::move(path)),
      access_(access),
      tenants_(tenants),
      observer_(observer),
      further_(std::move(further)),
      current_(loaded.digest) {
  observer_.ConfigRead(/*valid=*/true);
  thread_ = std::thread([this] { Watch(); });
  pthread_setname_np(thread_.native_handle(), "config");
}

ConfigWatcher::~ConfigWatcher() {
  stop_.Stop();
  thread_.join();
}

void ConfigWatcher::Watch() {
  while (stop_.WaitFor(kConfigRefresh)) Refresh();
}

void ConfigWatcher::Refresh() {
  absl::StatusOr<LoadedConfig> loaded = LoadConfig(path_);
  if (loaded.ok() && loaded->digest != current_ && further_) {
    const absl::Status applied = further_(*loaded);
    if (!applied.ok()) loaded = applied;
  }
  observer_.ConfigRead(loaded.ok());
  if (loaded.ok() && loaded->digest != current_) {
    current_ = loaded->digest;
    tenants_.Configure(loaded->namespaces, loaded->not_before);
    access_.Replace(std::make_shared<AccessPolicy>(std::move(loaded->access)));
    Log(LogLevel::kInfo, "configuration replaced", {{"config", path_}});
  }
  const std::string complaint(loaded.status().message());
  if (std::exchange(complaint_, complaint) == complaint || complaint.empty()) return;
  Log(LogLevel::kWarn, "the configuration cannot be used, the previous one applies",
      {{"error", complaint}, {"advice", "correct the file; it is read again every second"}});
}

}  // namespace idempotency::internal
