#include "idempotencyd/processor_settings_from.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "google/protobuf/repeated_field.h"

#include "core/absl_view.h"
#include "core/record_key_parts.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

// A reply of the largest size, with the messages that carry it to a proxy.
constexpr std::size_t kMinReplyRoom = limits::kMaxReplyBytes + 1024 * 1024;
// Headers alone may take as much. A smaller number is one of another unit.
constexpr std::uint64_t kMinConfiguredRequestBytes = 64 * 1024;
constexpr std::uint64_t kMaxConfiguredRequestBytes = 64 * 1024 * 1024;
// With fewer a scope's share is next to nothing.
constexpr std::uint32_t kMinConfiguredExchanges = 64;

using config::v1::ExternalProcessor;
using config::v1::GrpcMethods;
using config::v1::ScopeOfCall;

absl::StatusOr<PeerName> PeerNameFrom(ScopeOfCall::PeerName name) {
  switch (name) {
    case ScopeOfCall::URI:
      return PeerName::kUri;
    case ScopeOfCall::DNS:
      return PeerName::kDns;
    case ScopeOfCall::SUBJECT:
      return PeerName::kSubject;
    case ScopeOfCall::CERTIFICATE_DIGEST:
      return PeerName::kCertificateDigest;
    default:
      return absl::InvalidArgumentError(
          "scope: peer must be URI, DNS, SUBJECT or CERTIFICATE_DIGEST");
  }
}

// Headers that no proxy sets for a scope: a secret would be stored as the scope, and of the others
// a retry has another value, under which it would run again.
constexpr std::string_view kNoScopeHeaders[] = {"authorization", "proxy-authorization",
                                                "cookie",        "idempotency-key",
                                                "x-request-id",  "traceparent"};

// In lower case. INVALID_ARGUMENT, for the field `field`, unless it is the name of a header.
absl::StatusOr<std::string> HeaderNameFrom(const std::string& header, std::string_view field) {
  std::string name = absl::AsciiStrToLower(header);
  bool valid = !name.empty();
  for (const char c : name) {
    valid = valid && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                      c == '.');
  }
  if (valid) return name;
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(field), " must be a name of letters, digits, '-', '_' and '.'"));
}

absl::StatusOr<SingleScopeSource> ScopeHeaderFrom(const std::string& header) {
  absl::StatusOr<std::string> name = HeaderNameFrom(header, "scope: header");
  if (!name.ok()) return name.status();
  for (const std::string_view other : kNoScopeHeaders) {
    if (*name != other) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("scope: header must not be ", *name,
                     ": it has a secret, or another value in a retry; name a header with the "
                     "caller's name, which the proxy sets"));
  }
  return SingleScopeSource(ScopeHeader{*std::move(name)});
}

absl::StatusOr<SingleScopeSource> SharedScopeFrom(const std::string& shared) {
  if (const absl::Status valid = ValidateScope(shared); !valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("scope: shared ", DetailsOf(valid).violations.front().description));
  }
  return SingleScopeSource(SharedScopeName{shared});
}

absl::StatusOr<SingleScopeSource> SingleScopeSourceFrom(const ScopeOfCall& scope) {
  switch (scope.source_case()) {
    case ScopeOfCall::kPeer: {
      absl::StatusOr<PeerName> name = PeerNameFrom(scope.peer());
      if (!name.ok()) return name.status();
      return SingleScopeSource(*name);
    }
    case ScopeOfCall::kHeader:
      return ScopeHeaderFrom(scope.header());
    case ScopeOfCall::kMetadata:
      if (scope.metadata().filter().empty() || scope.metadata().path().empty()) {
        return absl::InvalidArgumentError("scope: metadata needs filter and path");
      }
      return SingleScopeSource(
          ScopeMetadata{scope.metadata().filter(),
                        {scope.metadata().path().begin(), scope.metadata().path().end()}});
    case ScopeOfCall::kShared:
      return SharedScopeFrom(scope.shared());
    case ScopeOfCall::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("scope needs one of peer, header, metadata and shared");
}

absl::StatusOr<ScopeSource> ScopeSourceFrom(
    const google::protobuf::RepeatedPtrField<ScopeOfCall>& scopes) {
  CombinedScopeSource combined;
  for (const ScopeOfCall& scope : scopes) {
    absl::StatusOr<SingleScopeSource> part = SingleScopeSourceFrom(scope);
    if (!part.ok()) return part.status();
    combined.parts.push_back(*std::move(part));
  }
  if (combined.parts.empty()) return SingleScopeSourceFrom(ScopeOfCall()).status();
  if (combined.parts.size() > 1) return combined;
  return std::visit([](const auto& only) { return ScopeSource(only); }, combined.parts.front());
}

std::optional<MethodPolicy::OnUnknownOutcome> UnknownOutcomeFrom(v1::LeaseExpiry choice) {
  switch (choice) {
    case v1::LEASE_EXPIRY_TAKE_OVER:
      return MethodPolicy::OnUnknownOutcome::kTakeOver;
    case v1::LEASE_EXPIRY_REQUIRE_RECOVERY:
      return MethodPolicy::OnUnknownOutcome::kRequireRecovery;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<ProcessorConfig::KeyFormat> KeyFormatFrom(GrpcMethods::KeyFormat format) {
  switch (format) {
    case GrpcMethods::KEY_FORMAT_UNSPECIFIED:
      return ProcessorConfig::KeyFormat::kAny;
    case GrpcMethods::UUIDV7:
      return ProcessorConfig::KeyFormat::kUuidv7;
    default:
      return absl::InvalidArgumentError("key_format must be UUIDV7, or not set");
  }
}

template <typename Configured>
std::optional<v1::Policy> PolicyOf(const Configured& configured) {
  if (!configured.has_policy()) return std::nullopt;
  return configured.policy();
}

absl::StatusOr<ProcessorConfig> ConfigFrom(const LoadedConfig& loaded) {
  const ExternalProcessor& section = loaded.config.external_processor();
  ProcessorConfig config;
  config.name_space = section.namespace_();
  absl::StatusOr<ScopeSource> scope = ScopeSourceFrom(section.scope());
  if (!scope.ok()) return scope.status();
  config.scope = *std::move(scope);
  config.on_unknown_outcome = UnknownOutcomeFrom(section.on_unknown_outcome());
  for (std::size_t i = 0; i < loaded.descriptor_sets.size(); ++i) {
    config.descriptor_sets.push_back(
        {section.descriptor_sets(static_cast<int>(i)), loaded.descriptor_sets[i]});
  }
  for (const auto& methods : section.grpc_methods()) {
    const absl::StatusOr<ProcessorConfig::KeyFormat> format = KeyFormatFrom(methods.key_format());
    if (!format.ok()) return format.status();
    config.grpc_methods.push_back(
        {methods.name(), PolicyOf(methods), methods.operation(), *format});
  }
  for (const auto& route : section.http_routes()) {
    ProcessorConfig::HttpRoute& made = config.http_routes.emplace_back();
    for (const std::string& method : route.methods()) {
      made.methods.push_back(absl::AsciiStrToUpper(method));
    }
    made.path = route.path();
    made.policy = PolicyOf(route);
    made.operation = route.operation();
    const absl::StatusOr<ProcessorConfig::KeyFormat> format = KeyFormatFrom(route.key_format());
    if (!format.ok()) return format.status();
    made.key_format = *format;
  }
  if (const std::uint64_t bytes = section.max_request_bytes();
      bytes > 0 && (bytes < kMinConfiguredRequestBytes || bytes > kMaxConfiguredRequestBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_request_bytes must be ", kMinConfiguredRequestBytes, " to ",
                     kMaxConfiguredRequestBytes, " bytes, or 0 for the default"));
  }
  if (section.max_exchanges() > 0 && section.max_exchanges() < kMinConfiguredExchanges) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_exchanges must be at least ", kMinConfiguredExchanges, ", or 0 for the default"));
  }
  if (section.max_request_bytes() > 0) config.max_request_bytes = section.max_request_bytes();
  if (section.max_held_bytes() > 0 && section.max_held_bytes() / 2 < config.max_request_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_held_bytes must be at least ", 2 * config.max_request_bytes,
                     ", twice max_request_bytes: half of it is for requests, and one must fit"));
  }
  if (section.max_held_bytes() > 0 && section.max_held_bytes() / 2 < kMinReplyRoom) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_held_bytes must be at least ", 2 * kMinReplyRoom,
                     ": half of it is for replies, and the largest must fit"));
  }
  for (const std::string& header : section.unrecorded_headers()) {
    absl::StatusOr<std::string> name = HeaderNameFrom(header, "unrecorded_headers");
    if (!name.ok()) return name.status();
    config.unrecorded_headers.push_back(*std::move(name));
  }
  config.streams_replays = !section.no_streamed_replays();
  return config;
}

// Every reservation states its policy's retention: outside of the namespace's bounds each new call
// would be refused.
std::string RetentionFaults(const ProcessorSettings& settings, const LoadedConfig& loaded) {
  const auto listed = loaded.namespaces.find(settings.config.name_space);
  if (listed == loaded.namespaces.end()) return "";
  const NamespaceSettings& bounds = listed->second;
  std::vector<std::string> faults;
  for (const auto& [name, route] : settings.routes->Guarded()) {
    const absl::Duration retention = route->policy.retention;
    if (retention >= bounds.min_retention && retention <= bounds.max_retention) continue;
    faults.push_back(absl::StrCat(name, ": its retention is ", absl::FormatDuration(retention),
                                  ", and the namespace ", listed->first, " admits ",
                                  absl::FormatDuration(bounds.min_retention), " to ",
                                  absl::FormatDuration(bounds.max_retention),
                                  ": set retention in its policy, or widen namespaces.retention"));
  }
  return absl::StrJoin(faults, "; ");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ProcessorSettings>> ProcessorSettingsFrom(
    const LoadedConfig& loaded) {
  absl::StatusOr<ProcessorConfig> config = ConfigFrom(loaded);
  absl::Status fault = config.status();
  if (config.ok()) {
    absl::StatusOr<std::shared_ptr<const ProcessorSettings>> settings =
        ProcessorSettings::Make(*std::move(config));
    fault = settings.status();
    if (settings.ok()) {
      const std::string retention = RetentionFaults(**settings, loaded);
      if (retention.empty()) return settings;
      fault = absl::InvalidArgumentError(retention);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("external_processor: ", fault.message()));
}

ExchangeBounds::Limits ExchangeLimitsFrom(const LoadedConfig& loaded) {
  const ExternalProcessor& section = loaded.config.external_processor();
  ExchangeBounds::Limits limits;
  if (section.max_exchanges() > 0) limits.exchanges = section.max_exchanges();
  if (section.max_held_bytes() > 0) limits.bytes = section.max_held_bytes();
  return limits;
}

std::string StreamsWarning(const ExchangeBounds::Limits& limits, int streams_of_address) {
  if (limits.exchanges <= static_cast<std::size_t>(streams_of_address)) return "";
  return absl::StrCat(
      "max_exchanges is ", limits.exchanges, ", and --max_calls admits ", streams_of_address,
      " streams of one address, such as that of a proxy: set --max_calls=", 2 * limits.exchanges,
      ", or a max_exchanges of at most ", streams_of_address);
}

}  // namespace idempotency::internal
