#include "server/access/access_policy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

std::string AsText(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string TokenSubjectKey(absl::string_view issuer, absl::string_view subject) {
  return absl::StrCat(issuer, absl::string_view("\0", 1), subject);
}

absl::Status Unknown(absl::string_view fault) { return absl::UnauthenticatedError(fault); }

}  // namespace

AccessPolicy::AccessPolicy(AccessRules rules)
    : rules_(std::move(rules)),
      granted_(rules_.identities.size()),
      peer_scoped_(rules_.peer_scoped.begin(), rules_.peer_scoped.end()) {
  for (std::size_t index = 0; index < rules_.identities.size(); ++index) AddIdentity(index);
  for (const AccessRules::Rule& rule : rules_.rules) AddRule(rule);
}

void AccessPolicy::AddIdentity(std::size_t index) {
  const AccessRules::Identity& identity = rules_.identities[index];
  for (const std::string& uri : identity.uris) by_uri_[uri] = index;
  for (const std::string& name : identity.dns_names) by_dns_name_[name] = index;
  for (const std::string& subject : identity.subjects) by_subject_[subject] = index;
  for (const Sha256Digest& digest : identity.token_digests) {
    by_token_digest_[AsText(digest)] = index;
  }
  for (const AccessRules::TokenSubject& token : identity.token_subjects) {
    by_token_subject_[TokenSubjectKey(token.issuer, token.subject)] = index;
  }
  if (identity.any_certificate) any_certificate_ = index;
  if (identity.local) local_ = index;
  if (identity.anonymous) anonymous_ = index;
}

void AccessPolicy::AddRule(const AccessRules::Rule& rule) {
  for (std::size_t index = 0; index < rules_.identities.size(); ++index) {
    if (rules_.identities[index].name != rule.identity) continue;
    for (const std::string& name_space : rule.namespaces) {
      Permissions& permissions = name_space == kEveryNamespace
                                     ? granted_[index].everywhere
                                     : granted_[index].by_namespace[name_space];
      permissions.Add(rule.permissions);
    }
  }
}

absl::StatusOr<AccessPolicy::Identified> AccessPolicy::Identify(const Credentials& credentials,
                                                                absl::Time now) const {
  if (credentials.malformed) {
    return Unknown("the metadata `authorization` must be one `Bearer TOKEN`");
  }
  if (!credentials.token.empty()) return ByToken(credentials.token, now);
  if (credentials.certificate) return ByCertificate(credentials);
  if (credentials.local && local_.has_value()) return Identified{*local_};
  if (anonymous_.has_value()) return Identified{*anonymous_};
  constexpr absl::string_view kNothing =
      "the caller presented neither a client certificate nor a token";
  if (!credentials.proxy_header.empty() && local_.has_value()) {
    return Unknown(absl::StrCat(kNothing, ", and its call is not `local`, since it has the header ",
                                AbslView(credentials.proxy_header), ", which proxies add"));
  }
  return Unknown(kNothing);
}

absl::StatusOr<AccessPolicy::Identified> AccessPolicy::ByToken(const std::string& token,
                                                               absl::Time now) const {
  const auto found = by_token_digest_.find(AsText(Sha256(token)));
  if (found != by_token_digest_.end()) return Identified{found->second};
  if (LooksLikeJsonWebToken(token)) return ByJsonWebToken(token, now);
  return Unknown("the token is no identity's");
}

absl::StatusOr<AccessPolicy::Identified> AccessPolicy::ByJsonWebToken(const std::string& token,
                                                                      absl::Time now) const {
  if (rules_.issuers.empty()) return Unknown("no issuer of tokens is configured");
  const absl::StatusOr<std::string> claimed = ClaimedIssuer(token);
  if (!claimed.ok()) return claimed.status();
  const auto issuer = std::find_if(rules_.issuers.begin(), rules_.issuers.end(),
                                   [&](const auto& one) { return one.issuer() == *claimed; });
  if (issuer == rules_.issuers.end()) return Unknown("the token's issuer is not configured");
  const absl::StatusOr<VerifiedToken> verified = issuer->Verify(token, now);
  if (!verified.ok()) return verified.status();
  const auto found = by_token_subject_.find(TokenSubjectKey(verified->issuer, verified->subject));
  if (found == by_token_subject_.end()) return Unknown("the token's subject is no identity's");
  return Identified{found->second, verified->valid_until};
}

absl::StatusOr<AccessPolicy::Identified> AccessPolicy::ByCertificate(
    const Credentials& credentials) const {
  std::optional<std::size_t> identity;
  bool several = false;
  const auto add = [&](const Names& names, const std::string& name) {
    const auto found = names.find(name);
    if (found == names.end()) return;
    several = several || (identity.has_value() && *identity != found->second);
    identity = found->second;
  };
  for (const std::string& uri : credentials.uris) add(by_uri_, uri);
  for (const std::string& name : credentials.dns_names) add(by_dns_name_, name);
  if (!credentials.subject.empty()) add(by_subject_, credentials.subject);
  if (several) return Unknown("the client certificate has the names of several identities");
  if (!identity.has_value()) identity = any_certificate_;
  if (!identity.has_value()) return Unknown("the client certificate is no identity's");
  return Identified{*identity};
}

bool AccessPolicy::Allows(std::size_t identity, absl::string_view name_space,
                          Permission permission) const {
  const Granted& granted = granted_[identity];
  if (granted.everywhere.Has(permission)) return true;
  const auto found = granted.by_namespace.find(name_space);
  return found != granted.by_namespace.end() && found->second.Has(permission);
}

bool AccessPolicy::AllowsAnywhere(std::size_t identity, Permission permission) const {
  const Granted& granted = granted_[identity];
  if (granted.everywhere.Has(permission)) return true;
  for (const auto& [name_space, permissions] : granted.by_namespace) {
    if (permissions.Has(permission)) return true;
  }
  return false;
}

std::vector<std::string> AccessPolicy::Named(std::size_t identity, Permission permission) const {
  std::vector<std::string> names;
  for (const auto& [name_space, permissions] : granted_[identity].by_namespace) {
    if (permissions.Has(permission)) names.push_back(name_space);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status AccessPolicy::Check(std::size_t identity, const RecordKey& key,
                                 Permission permission) const {
  const std::string& name = NameOf(identity);
  if (!Allows(identity, key.name_space, permission)) {
    return absl::PermissionDeniedError(absl::StrCat("identity \"", name, "\" has no permission ",
                                                    PermissionName(permission), " in namespace \"",
                                                    key.name_space, "\"; a rule must grant it"));
  }
  const bool own_scope = absl::StartsWith(key.scope, name) &&
                         (key.scope.size() == name.size() || key.scope[name.size()] == '/');
  if (peer_scoped_.contains(key.name_space) && permission == Permission::kWrite && !own_scope) {
    return absl::PermissionDeniedError(
        absl::StrCat("in namespace \"", key.name_space, "\" the scope of identity \"", name,
                     "\" must be \"", name, "\" or begin with \"", name, "/\""));
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
