#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_SCOPE_SOURCE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_SCOPE_SOURCE_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

#include "interceptors/ext_proc/exchange/header_list.h"
#include "interceptors/ext_proc/exchange/proxy_context.h"

namespace idempotency::internal {

// Where the owner of a call's key is found. Value types.
enum class PeerName {
  kUri,                // the first subject alternative name of type URI
  kDns,                // the first of type DNS
  kSubject,            // the whole subject
  kCertificateDigest,  // SHA-256 of the certificate: another after each renewal
};
// A header that Envoy sets, and removes from callers' requests.
struct ScopeHeader {
  std::string name;

  friend bool operator==(const ScopeHeader& a, const ScopeHeader& b) { return a.name == b.name; }
};
// A text in the metadata of one of Envoy's filters, for example a claim of a verified token.
struct ScopeMetadata {
  std::string filter;
  std::vector<std::string> path;

  friend bool operator==(const ScopeMetadata& a, const ScopeMetadata& b) {
    return a.filter == b.filter && a.path == b.path;
  }
};
// One scope for all callers.
struct SharedScopeName {
  std::string scope;

  friend bool operator==(const SharedScopeName& a, const SharedScopeName& b) {
    return a.scope == b.scope;
  }
};
using SingleScopeSource = std::variant<PeerName, ScopeHeader, ScopeMetadata, SharedScopeName>;
// All of them together, as CombinedScope of a guard.
struct CombinedScopeSource {
  std::vector<SingleScopeSource> parts;

  friend bool operator==(const CombinedScopeSource& a, const CombinedScopeSource& b) {
    return a.parts == b.parts;
  }
};
using ScopeSource =
    std::variant<PeerName, ScopeHeader, ScopeMetadata, SharedScopeName, CombinedScopeSource>;

// Whether Envoy sends what `source` needs, for a caller that has it. False is a fault of Envoy's
// configuration alone; true may be one, too.
bool StatesCallers(const ScopeSource& source, const ProxyContext& context);

// The scope of a call, as a guard's PeerUriScope or MetadataScope would return it for the same
// name. UNAUTHENTICATED if Envoy does not state one; the message names what is missing, from the
// certificate or from Envoy's configuration.
absl::StatusOr<std::string> ScopeFrom(const ScopeSource& source, const ProxyContext& context,
                                      const HeaderList& headers);

// Whose share of the processor's bounds a call takes that has this scope: of a combined scope the
// part that names the peer, or else the first part that names a caller. The other parts may be
// values of the peer's choice, and with one share for each of them a peer would take all of them.
std::string ShareFrom(const ScopeSource& source, const ProxyContext& context,
                      const HeaderList& headers, const std::string& scope);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_SCOPE_SOURCE_H_
