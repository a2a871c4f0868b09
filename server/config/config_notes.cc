#include "server/config/config_notes.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"

#include "core/exchange_limits.h"
#include "server/access/access_policy.h"

namespace idempotency::internal {
namespace {

// With as many times the largest request, each request of a described method has room: a quarter is
// for one, which takes up to 12 times its bytes as parsed fields, in addition to the bytes
// themselves.
constexpr std::uint64_t kRoomForARequest = 52;

void NoteNamespaces(const config::v1::Config& config, std::vector<std::string>& notes) {
  std::set<std::string> listed;
  for (const auto& name_space : config.namespaces()) listed.insert(name_space.name());
  // Every one has the defaults.
  if (listed.empty()) return;
  std::set<std::string> used;
  for (const auto& rule : config.rules()) {
    used.insert(rule.namespaces().begin(), rule.namespaces().end());
  }
  const bool all_are_used = used.erase(std::string(kEveryNamespace)) > 0;
  if (config.has_external_processor()) used.insert(config.external_processor().namespace_());
  for (const std::string& name : used) {
    if (listed.count(name) > 0) continue;
    notes.push_back(absl::StrCat("namespace \"", name,
                                 "\" is in use, and not one of namespaces: it has the defaults, "
                                 "and no limits"));
  }
  if (all_are_used) return;
  for (const std::string& name : listed) {
    if (used.count(name) > 0) continue;
    notes.push_back(
        absl::StrCat("namespace \"", name, "\" is in no rule: its settings apply to no caller"));
  }
}

// Envoy adds x-forwarded-for to its own calls of the processor, also of the same machine.
void NoteLocalProxies(const config::v1::Config& config, std::vector<std::string>& notes) {
  const auto& proxies = config.external_processor().proxies();
  for (const auto& identity : config.identities()) {
    const bool has_another = !identity.certificates().empty() || !identity.tokens().empty() ||
                             !identity.token_subjects().empty() || identity.anonymous();
    if (!identity.local() || has_another) continue;
    if (std::find(proxies.begin(), proxies.end(), identity.name()) == proxies.end()) continue;
    notes.push_back(absl::StrCat(
        "identity \"", identity.name(),
        "\" in external_processor.proxies has no credential but `local`: a proxy that adds "
        "x-forwarded-for to its calls, as Envoy does, is refused; give it a certificate, a token, "
        "or `anonymous: true`"));
  }
}

void NoteProcessor(const config::v1::ExternalProcessor& processor,
                   std::vector<std::string>& notes) {
  if (processor.proxies().empty()) {
    notes.emplace_back(
        "external_processor.proxies is empty: a daemon whose --ext_proc is reached by other "
        "machines refuses this file");
  }
  const std::uint64_t request = processor.max_request_bytes() > 0
                                    ? processor.max_request_bytes()
                                    : limits::kMaxExchangeRequestBytes;
  const std::uint64_t held =
      processor.max_held_bytes() > 0 ? processor.max_held_bytes() : limits::kMaxExchangeBytes;
  if (held / kRoomForARequest < request) {
    notes.push_back(absl::StrCat(
        "external_processor.max_held_bytes is below ", kRoomForARequest,
        " times max_request_bytes: large requests of described methods may be refused"));
  }
}

}  // namespace

std::vector<std::string> NotesOn(const LoadedConfig& loaded) {
  std::vector<std::string> notes;
  NoteNamespaces(loaded.config, notes);
  if (loaded.config.has_external_processor()) {
    NoteLocalProxies(loaded.config, notes);
    NoteProcessor(loaded.config.external_processor(), notes);
  }
  return notes;
}

}  // namespace idempotency::internal
