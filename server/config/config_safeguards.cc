#include "server/config/config_safeguards.h"

#include <algorithm>
#include <iterator>

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

ConfigSafeguards::ConfigSafeguards(const LoadedConfig& loaded) {
  for (const auto& identity : loaded.config.identities()) identities_.insert(identity.name());
  not_before_ = loaded.not_before.value_or(absl::InfinitePast());
  for (const auto& [name, settings] : loaded.namespaces) {
    if (settings.not_before) own_.emplace(name, *settings.not_before);
    windows_.emplace(name, settings.window);
    retentions_.emplace(name, Bounds{settings.min_retention, settings.max_retention});
  }
  peer_scoped_.insert(loaded.access.peer_scoped.begin(), loaded.access.peer_scoped.end());
}

std::vector<std::string> ConfigSafeguards::IdentitiesLostIn(const ConfigSafeguards& next) const {
  std::vector<std::string> lost;
  std::set_difference(identities_.begin(), identities_.end(), next.identities_.begin(),
                      next.identities_.end(), std::back_inserter(lost));
  return lost;
}

std::vector<std::string> ConfigSafeguards::NotBeforeLostIn(const ConfigSafeguards& next) const {
  std::vector<std::string> lost;
  if (next.not_before_ < not_before_) lost.emplace_back("*");
  for (const auto& [name, time] : own_) {
    if (next.NotBeforeOf(name) < time) lost.push_back(name);
  }
  return lost;
}

std::vector<std::string> ConfigSafeguards::WindowsRaisedIn(const ConfigSafeguards& next,
                                                           absl::Time now) const {
  std::vector<std::string> raised;
  for (const std::string& name : NamesWith(next)) {
    // A record that this replica reserved a moment ago is kept for the shorter window, or for
    // the least retention if that is longer.
    const absl::Duration kept = std::max(WindowOf(name), RetentionOf(name).min);
    const bool covered = next.NotBeforeOf(name) >= now;
    if (next.WindowOf(name) > kept && !covered) raised.push_back(name);
  }
  return raised;
}

std::vector<std::string> ConfigSafeguards::RetentionsTightenedIn(
    const ConfigSafeguards& next) const {
  std::vector<std::string> tightened;
  for (const std::string& name : NamesWith(next)) {
    const Bounds before = RetentionOf(name);
    const Bounds after = next.RetentionOf(name);
    if (after.min > before.min || after.max < before.max) tightened.push_back(name);
  }
  return tightened;
}

std::vector<std::string> ConfigSafeguards::PeerScopesLostIn(const ConfigSafeguards& next) const {
  std::vector<std::string> lost;
  std::set_difference(peer_scoped_.begin(), peer_scoped_.end(), next.peer_scoped_.begin(),
                      next.peer_scoped_.end(), std::back_inserter(lost));
  return lost;
}

absl::Duration ConfigSafeguards::WindowOf(const std::string& name_space) const {
  const auto listed = windows_.find(name_space);
  return listed == windows_.end() ? limits::kDefaultWindow : listed->second;
}

ConfigSafeguards::Bounds ConfigSafeguards::RetentionOf(const std::string& name_space) const {
  const auto listed = retentions_.find(name_space);
  return listed == retentions_.end() ? Bounds() : listed->second;
}

std::set<std::string> ConfigSafeguards::NamesWith(const ConfigSafeguards& next) const {
  std::set<std::string> names;
  for (const auto& [name, window] : windows_) names.insert(name);
  for (const auto& [name, window] : next.windows_) names.insert(name);
  return names;
}

absl::Time ConfigSafeguards::NotBeforeOf(const std::string& name_space) const {
  const auto own = own_.find(name_space);
  return own == own_.end() ? not_before_ : std::max(not_before_, own->second);
}

}  // namespace idempotency::internal
