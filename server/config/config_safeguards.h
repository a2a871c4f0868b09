#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_SAFEGUARDS_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_SAFEGUARDS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"
#include "server/config/config_file.h"

namespace idempotency::internal {

// The parts of a configuration whose removal by mistake does harm: without an identity its callers
// are refused, without `not_before` lost keys run again, without a shorter window forgotten keys
// do, without wider bounds of the retention guards are refused, and without PEER a caller may use
// the scopes of others. A value type.
class ConfigSafeguards {
 public:
  explicit ConfigSafeguards(const LoadedConfig& loaded);

  // The names of identities that `next` has not.
  std::vector<std::string> IdentitiesLostIn(const ConfigSafeguards& next) const;
  // The namespaces for which `next` has an earlier `not_before`, or none; "*": every namespace.
  std::vector<std::string> NotBeforeLostIn(const ConfigSafeguards& next) const;
  // The namespaces for which `next`, which applies from `now` on, has a longer window and no
  // `not_before` from `now` on, so that keys run again whose records were kept for the shorter one;
  // not where the former least retention is as long as the new window.
  std::vector<std::string> WindowsRaisedIn(const ConfigSafeguards& next, absl::Time now) const;
  // The namespaces for which `next` has narrower bounds of the retention: guards whose policies
  // state one outside of them get no new records.
  std::vector<std::string> RetentionsTightenedIn(const ConfigSafeguards& next) const;
  // The namespaces with `scope_from: PEER` that `next` has without it.
  std::vector<std::string> PeerScopesLostIn(const ConfigSafeguards& next) const;

 private:
  // The later one of the namespace's own and that of all.
  absl::Time NotBeforeOf(const std::string& name_space) const;
  absl::Duration WindowOf(const std::string& name_space) const;
  struct Bounds {
    absl::Duration min = limits::kMinRetention;
    absl::Duration max = limits::kMaxRetention;
  };
  Bounds RetentionOf(const std::string& name_space) const;
  // The namespaces that either lists, by name.
  std::set<std::string> NamesWith(const ConfigSafeguards& next) const;

  std::set<std::string> identities_;
  absl::Time not_before_ = absl::InfinitePast();
  // The not_before of each namespace that has its own.
  std::map<std::string, absl::Time> own_;
  // The windows of listed namespaces; others have the default.
  std::map<std::string, absl::Duration> windows_;
  // The same of their retentions.
  std::map<std::string, Bounds> retentions_;
  std::set<std::string> peer_scoped_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_SAFEGUARDS_H_
