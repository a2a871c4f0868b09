#include "grpc_idempotency/server_guard/scope.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "core/sha256.h"
#include "interceptors/server/request/combined_scope.h"
#include "interceptors/server/request/identity_scope.h"

namespace idempotency {

using internal::IdentityScope;
using internal::JoinScopes;
using internal::Sha256;
using internal::Sha256Digest;

namespace {

std::string Sha256Hex(absl::string_view bytes) {
  const Sha256Digest digest = Sha256({bytes.data(), bytes.size()});
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::vector<absl::string_view> MetadataValues(const grpc::ServerContextBase& context,
                                              absl::string_view key) {
  std::vector<absl::string_view> values;
  const auto range = context.client_metadata().equal_range({key.data(), key.size()});
  for (auto entry = range.first; entry != range.second; ++entry) {
    values.emplace_back(entry->second.data(), entry->second.size());
  }
  return values;
}

absl::StatusOr<std::string> OneValue(const grpc::ServerContextBase& context,
                                     absl::string_view key) {
  const std::vector<absl::string_view> values = MetadataValues(context, key);
  if (values.size() == 1 && !values[0].empty()) return std::string(values[0]);
  return absl::UnauthenticatedError(
      absl::StrCat("this method needs exactly one metadata entry '", key, "'"));
}

// gRPC's credentials for local connections authenticate every peer, with the name of the
// transport ("local") as identity, so that all callers would share one scope.
bool NamesTheTransport(const grpc::AuthContext& auth) {
  return auth.GetPeerIdentityPropertyName() == GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME;
}

bool HasCertificate(const grpc::AuthContext* auth) {
  return auth != nullptr && auth->IsPeerAuthenticated() && !NamesTheTransport(*auth);
}

// Of a type with a name, so that its parts can be checked.
struct CombinedScopes {
  absl::StatusOr<std::string> operator()(const grpc::ServerContextBase& context) const {
    return JoinScopes(parts, [&context](const ScopeFunction& part) { return part(context); });
  }

  std::vector<ScopeFunction> parts;
};

absl::Status NoCertificate() {
  return absl::UnauthenticatedError("this method needs a client certificate");
}

}  // namespace

ScopeFunction PeerIdentityScope() {
  return [](const grpc::ServerContextBase& context) -> absl::StatusOr<std::string> {
    const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
    std::vector<absl::string_view> names;
    if (HasCertificate(auth.get())) {
      for (const grpc::string_ref& name : auth->GetPeerIdentity()) {
        names.emplace_back(name.data(), name.size());
      }
    }
    if (names.empty()) return NoCertificate();
    return IdentityScope(std::move(names));
  };
}

ScopeFunction PeerUriScope() {
  return [](const grpc::ServerContextBase& context) -> absl::StatusOr<std::string> {
    const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
    if (!HasCertificate(auth.get())) return NoCertificate();
    const std::vector<grpc::string_ref> uris =
        auth->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
    if (uris.empty()) {
      return absl::UnauthenticatedError(
          "the caller's certificate has no subject alternative name of type URI");
    }
    return IdentityScope({{uris.front().data(), uris.front().size()}});
  };
}

ScopeFunction MetadataScope(std::string metadata_key) {
  // gRPC delivers keys in lower case.
  absl::AsciiStrToLower(&metadata_key);
  return [key = std::move(metadata_key)](const grpc::ServerContextBase& context) {
    return OneValue(context, key);
  };
}

ScopeFunction SharedScope(std::string scope) {
  return [scope = std::move(scope)](const grpc::ServerContextBase&) -> absl::StatusOr<std::string> {
    return scope;
  };
}

ScopeFunction AuthorizationScope() {
  return [](const grpc::ServerContextBase& context) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> value = OneValue(context, "authorization");
    if (!value.ok()) return value;
    return absl::StrCat("authorization:", Sha256Hex(*value));
  };
}

ScopeFunction CombinedScope(std::vector<ScopeFunction> parts) {
  return CombinedScopes{std::move(parts)};
}

absl::Status internal::ValidateScopeFunction(const ScopeFunction& scope) {
  const auto* const combined = scope.target<CombinedScopes>();
  if (combined == nullptr) return absl::OkStatus();
  if (combined->parts.empty()) {
    return absl::InvalidArgumentError("must not be a CombinedScope without parts");
  }
  for (const ScopeFunction& part : combined->parts) {
    if (!part) return absl::InvalidArgumentError("must not be a CombinedScope with an empty part");
    if (absl::Status valid = ValidateScopeFunction(part); !valid.ok()) return valid;
  }
  return absl::OkStatus();
}

}  // namespace idempotency
