#include "server/config/config_watcher.h"

#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "server/observability/log.h"

namespace idempotency::internal {

ConfigWatcher::ConfigWatcher(std::string path, const LoadedConfig& loaded, AccessControl& access,
                             Tenants& tenants, Observer& observer, Further further,
                             absl::Duration refresh)
    : path_(std::move(path)),
      access_(access),
      tenants_(tenants),
      observer_(observer),
      further_(std::move(further)),
      current_(loaded.digest),
      safeguards_(loaded) {
  observer_.ConfigRead(/*valid=*/true);
  thread_.emplace("config", refresh, [this, refresh] {
    Refresh();
    return refresh;
  });
}

void ConfigWatcher::Refresh() {
  MutexLock lock(mutex_);
  const absl::Status adopted = Adopt();
  observer_.ConfigRead(adopted.ok());
  const std::string complaint(adopted.message());
  if (std::exchange(complaint_, complaint) == complaint || complaint.empty()) return;
  Log(LogLevel::kWarn, "the configuration cannot be used, the previous one applies",
      {{"error", complaint}, {"advice", "correct the file; it is read again every second"}});
}

absl::Status ConfigWatcher::Adopt() {
  absl::StatusOr<LoadedConfig> loaded = LoadConfig(path_);
  if (!loaded.ok() || loaded->digest == current_) {
    seen_.reset();
    return loaded.status();
  }
  const bool settled = seen_ == loaded->digest;
  seen_ = loaded->digest;
  if (!settled) return absl::OkStatus();
  if (further_) {
    if (absl::Status applied = further_(*loaded); !applied.ok()) return applied;
  }
  Apply(*std::move(loaded));
  return absl::OkStatus();
}

void ConfigWatcher::Apply(LoadedConfig loaded) {
  current_ = loaded.digest;
  const ConfigSafeguards before = std::exchange(safeguards_, ConfigSafeguards(loaded));
  tenants_.Configure(loaded.namespaces, loaded.not_before);
  access_.Replace(std::make_shared<AccessPolicy>(std::move(loaded.access)));
  Log(LogLevel::kInfo, "configuration replaced", {{"config", path_}});
  WarnOf("identities were removed from the configuration", "identities",
         before.IdentitiesLostIn(safeguards_));
  WarnOf("not_before was removed from the configuration, or is earlier", "namespaces",
         before.NotBeforeLostIn(safeguards_));
  WarnOf(
      "windows were raised without a not_before after the change: keys whose records are "
      "forgotten run again; set it to five minutes from now",
      "namespaces", before.WindowsRaisedIn(safeguards_, absl::Now()));
  WarnOf("bounds of the retention were tightened: guards that state another one are refused",
         "namespaces", before.RetentionsTightenedIn(safeguards_));
  WarnOf("scope_from: PEER was removed from the configuration", "namespaces",
         before.PeerScopesLostIn(safeguards_));
}

void ConfigWatcher::WarnOf(absl::string_view event, absl::string_view what,
                           const std::vector<std::string>& lost) const {
  if (lost.empty()) return;
  Log(LogLevel::kWarn, event, {{what, absl::StrJoin(lost, " ")}, {"config", path_}});
}

}  // namespace idempotency::internal
