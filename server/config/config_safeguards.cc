#include "server/config/config_safeguards.h"

#include <algorithm>
#include <iterator>

namespace idempotency::internal {

ConfigSafeguards::ConfigSafeguards(const LoadedConfig& loaded) {
  for (const auto& identity : loaded.config.identities()) identities_.insert(identity.name());
  not_before_ = loaded.not_before.value_or(absl::InfinitePast());
  for (const auto& [name, settings] : loaded.namespaces) {
    if (settings.not_before) own_.emplace(name, *settings.not_before);
  }
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

absl::Time ConfigSafeguards::NotBeforeOf(const std::string& name_space) const {
  const auto own = own_.find(name_space);
  return own == own_.end() ? not_before_ : std::max(not_before_, own->second);
}

}  // namespace idempotency::internal
