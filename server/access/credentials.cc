#include "server/access/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <iterator>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

absl::string_view ViewOf(const grpc::string_ref& text) { return {text.data(), text.size()}; }

std::vector<std::string> PropertiesOf(const grpc::AuthContext& peer, const char* name) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : peer.FindPropertyValues(name)) {
    values.emplace_back(ViewOf(value));
  }
  return values;
}

void ReadCertificate(const grpc::AuthContext& peer, Credentials& credentials) {
  if (!peer.IsPeerAuthenticated()) return;
  credentials.certificate = true;
  credentials.uris = PropertiesOf(peer, GRPC_PEER_URI_PROPERTY_NAME);
  credentials.dns_names = PropertiesOf(peer, GRPC_PEER_DNS_PROPERTY_NAME);
  const std::vector<std::string> subjects = PropertiesOf(peer, GRPC_X509_SUBJECT_PROPERTY_NAME);
  if (subjects.size() == 1) credentials.subject = subjects.front();
}

void ReadToken(const grpc::ServerContextBase& context, Credentials& credentials) {
  const auto [first, last] = context.client_metadata().equal_range("authorization");
  if (first == last) return;
  if (std::next(first) != last) {
    credentials.malformed = true;
    return;
  }
  ReadAuthorization(ViewOf(first->second), credentials);
}

// Empty if the call has none of them.
std::string_view ProxyHeaderOf(const grpc::ServerContextBase& context) {
  for (const std::string_view name : kProxyHeaders) {
    if (context.client_metadata().count(grpc::string_ref(name.data(), name.size())) > 0) {
      return name;
    }
  }
  return {};
}

}  // namespace

bool IsLocalPeer(absl::string_view peer) {
  return absl::StartsWith(peer, "ipv4:127.") || absl::StartsWith(peer, "ipv6:%5B::1%5D:") ||
         absl::StartsWith(peer, "ipv6:[::1]:") || absl::StartsWith(peer, "ipv6:%5B::ffff:127.") ||
         absl::StartsWith(peer, "unix:");
}

void ReadAuthorization(absl::string_view value, Credentials& credentials) {
  // RFC 7235: the scheme's name is case-insensitive.
  constexpr absl::string_view kScheme = "bearer ";
  const bool bearer = absl::StartsWithIgnoreCase(value, kScheme);
  if (bearer) value.remove_prefix(kScheme.size());
  value = absl::StripAsciiWhitespace(value);
  if (!bearer || value.empty() || value.size() > limits::kMaxTokenBytes) {
    credentials.malformed = true;
    return;
  }
  credentials.token = std::string(value);
}

Credentials CredentialsOf(const grpc::ServerContextBase& context) {
  Credentials credentials;
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer != nullptr) ReadCertificate(*peer, credentials);
  ReadToken(context, credentials);
  credentials.peer = context.peer();
  if (IsLocalPeer(credentials.peer)) credentials.SetLocal(ProxyHeaderOf(context));
  return credentials;
}

}  // namespace idempotency::internal
