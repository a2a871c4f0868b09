#ifndef IDEMPOTENCY_SERVER_ACCESS_ACCESS_POLICY_H_
#define IDEMPOTENCY_SERVER_ACCESS_ACCESS_POLICY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/record_key.h"
#include "server/access/credentials.h"
#include "server/access/permission.h"
#include "server/access/token_issuer.h"

namespace idempotency::internal {

// Who may do what, as the configuration file states it (idempotency/config/v1/config.proto).
struct AccessRules {
  // The claims of a JSON Web Token that identify a caller.
  struct TokenSubject {
    std::string issuer;
    std::string subject;
  };
  // A caller, by any of its credentials.
  struct Identity {
    std::string name;
    std::vector<std::string> uris;
    std::vector<std::string> dns_names;
    std::vector<std::string> subjects;
    std::vector<Sha256Digest> token_digests;
    std::vector<TokenSubject> token_subjects;
    // Every certificate that the handshake accepts and that no identity names.
    bool any_certificate = false;
    // Connections from this machine without a credential.
    bool local = false;
    // Every other caller without a credential.
    bool anonymous = false;
  };
  struct Rule {
    std::string identity;
    // kEveryNamespace, or names.
    std::vector<std::string> namespaces;
    Permissions permissions;
  };

  std::vector<Identity> identities;
  std::vector<Rule> rules;
  std::vector<TokenIssuer> issuers;
  // Namespaces where a caller's scopes are its own: see AccessPolicy::Check().
  std::vector<std::string> peer_scoped;
};

inline constexpr absl::string_view kEveryNamespace = "*";

// Decides by AccessRules. Denies what no rule allows. Immutable, so thread-safe.
class AccessPolicy {
 public:
  // A caller that was identified.
  struct Identified {
    std::size_t identity = 0;
    // From then on its credentials must be presented again.
    absl::Time valid_until = absl::InfiniteFuture();
  };

  // Every name in `rules` is one of its identities', no two identities share a credential, and no
  // two issuers a name.
  explicit AccessPolicy(AccessRules rules);

  // The caller's identity: by its token if it presents one, otherwise by its certificate,
  // otherwise by its connection. A certificate that names several identities is refused, as is a
  // wrong token with a valid certificate. UNAUTHENTICATED states the fault.
  absl::StatusOr<Identified> Identify(const Credentials& credentials, absl::Time now) const;

  // OK, or PERMISSION_DENIED, which states the missing permission. In a peer-scoped namespace the
  // scope of `key` must be the identity's name, or begin with it and a slash.
  absl::Status Check(std::size_t identity, const RecordKey& key, Permission permission) const;
  // Without the scope.
  bool Allows(std::size_t identity, absl::string_view name_space, Permission permission) const;
  // True if it has the permission in at least one namespace.
  bool AllowsAnywhere(std::size_t identity, Permission permission) const;
  // The namespaces that a rule of the identity names with the permission, by name.
  std::vector<std::string> Named(std::size_t identity, Permission permission) const;

  const std::string& NameOf(std::size_t identity) const { return rules_.identities[identity].name; }

 private:
  using Names = absl::flat_hash_map<std::string, std::size_t>;

  // The permissions of an identity.
  struct Granted {
    Permissions everywhere;
    absl::flat_hash_map<std::string, Permissions> by_namespace;
  };

  void AddIdentity(std::size_t index);
  void AddRule(const AccessRules::Rule& rule);
  absl::StatusOr<Identified> ByToken(const std::string& token, absl::Time now) const;
  absl::StatusOr<Identified> ByJsonWebToken(const std::string& token, absl::Time now) const;
  absl::StatusOr<Identified> ByCertificate(const Credentials& credentials) const;

  const AccessRules rules_;
  std::vector<Granted> granted_;
  absl::flat_hash_set<std::string> peer_scoped_;
  Names by_uri_;
  Names by_dns_name_;
  Names by_subject_;
  absl::flat_hash_map<std::string, std::size_t> by_token_digest_;
  // By issuer and subject, apart by a NUL.
  Names by_token_subject_;
  std::optional<std::size_t> any_certificate_;
  std::optional<std::size_t> local_;
  std::optional<std::size_t> anonymous_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_ACCESS_POLICY_H_
