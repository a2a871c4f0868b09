#include "interceptors/ext_proc/request/scope_source.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/absl_view.h"
#include "interceptors/server/request/identity_scope.h"

namespace idempotency::internal {
namespace {

constexpr std::string_view kMutualTls = "connection.mtls";

struct PeerAttribute {
  std::string_view attribute;
  std::string_view in_words;
};

PeerAttribute AttributeOf(PeerName name) {
  switch (name) {
    case PeerName::kUri:
      return {"connection.uri_san_peer_certificate", "a subject alternative name of type URI"};
    case PeerName::kDns:
      return {"connection.dns_san_peer_certificate", "a subject alternative name of type DNS"};
    case PeerName::kSubject:
      return {"connection.subject_peer_certificate", "a subject"};
    case PeerName::kCertificateDigest:
      return {"connection.sha256_peer_certificate_digest", "a digest"};
  }
  return {};
}

class Finder {
 public:
  Finder(const ProxyContext& context, const HeaderList& headers)
      : context_(context), headers_(headers) {}

  absl::StatusOr<std::string> operator()(PeerName name) const {
    const PeerAttribute peer = AttributeOf(name);
    const std::optional<std::string> mutual = context_.Attribute(kMutualTls);
    if (!mutual.has_value()) {
      return absl::UnauthenticatedError(
          absl::StrCat("the proxy does not state who calls: its request_attributes must list ",
                       AbslView(kMutualTls), " and ", AbslView(peer.attribute)));
    }
    if (*mutual != "true") {
      return absl::UnauthenticatedError("this method needs a client certificate");
    }
    const std::string value = context_.Attribute(peer.attribute).value_or("");
    if (!value.empty()) return IdentityScope({AbslView(value)});
    return absl::UnauthenticatedError(
        absl::StrCat("the caller's certificate has not ", AbslView(peer.in_words),
                     ", or the proxy's request_attributes do not list ", AbslView(peer.attribute)));
  }

  absl::StatusOr<std::string> operator()(const ScopeHeader& header) const {
    const std::optional<std::string_view> value = headers_.OnlyValueOf(header.name);
    if (value.has_value() && !value->empty()) return std::string(*value);
    return absl::UnauthenticatedError(
        absl::StrCat("this method needs exactly one header '", header.name, "' from the proxy"));
  }

  absl::StatusOr<std::string> operator()(const ScopeMetadata& metadata) const {
    const std::string value = context_.Metadata(metadata.filter, metadata.path).value_or("");
    if (!value.empty()) return value;
    return absl::UnauthenticatedError(absl::StrCat(
        "the proxy states no ", absl::StrJoin(metadata.path, "."), " of ", metadata.filter,
        ": the caller has none, or metadata_options.forwarding_namespaces do not list the filter"));
  }

  absl::StatusOr<std::string> operator()(const SharedScopeName& shared) const {
    return shared.scope;
  }

  absl::StatusOr<std::string> operator()(const CombinedScopeSource& combined) const {
    return JoinScopes(combined.parts,
                      [this](const SingleScopeSource& part) { return std::visit(*this, part); });
  }

 private:
  const ProxyContext& context_;
  const HeaderList& headers_;
};

// nullptr if every part is shared by all callers.
const SingleScopeSource* PartOfShare(const CombinedScopeSource& combined) {
  const SingleScopeSource* found = nullptr;
  for (const SingleScopeSource& part : combined.parts) {
    if (std::holds_alternative<PeerName>(part)) return &part;
    if (found == nullptr && !std::holds_alternative<SharedScopeName>(part)) found = &part;
  }
  return found;
}

}  // namespace

bool StatesCallers(const ScopeSource& source, const ProxyContext& context) {
  bool needs_peer = std::holds_alternative<PeerName>(source);
  if (const auto* const combined = std::get_if<CombinedScopeSource>(&source)) {
    for (const SingleScopeSource& part : combined->parts) {
      needs_peer = needs_peer || std::holds_alternative<PeerName>(part);
    }
  }
  return !needs_peer || context.Attribute(kMutualTls).has_value();
}

absl::StatusOr<std::string> ScopeFrom(const ScopeSource& source, const ProxyContext& context,
                                      const HeaderList& headers) {
  return std::visit(Finder(context, headers), source);
}

std::string ShareFrom(const ScopeSource& source, const ProxyContext& context,
                      const HeaderList& headers, const std::string& scope) {
  const auto* const combined = std::get_if<CombinedScopeSource>(&source);
  const SingleScopeSource* const part = combined != nullptr ? PartOfShare(*combined) : nullptr;
  if (part == nullptr) return scope;
  return std::visit(Finder(context, headers), *part).value_or(scope);
}

}  // namespace idempotency::internal
