#include "interceptors/ext_proc/policy/call_identity.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "core/absl_view.h"
#include "core/field_memory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/idempotency_key.h"
#include "interceptors/ext_proc/exchange/content_coding.h"
#include "interceptors/ext_proc/front/grpc_front.h"
#include "interceptors/ext_proc/front/grpc_wire.h"
#include "interceptors/ext_proc/request/exact_fingerprint.h"
#include "interceptors/server/request/key_check.h"

namespace idempotency::internal {
namespace {

// The entries that belong to the request, as a gRPC server gets them.
struct NamedMetadata {
  // Decoded values; the view below points into them.
  std::vector<std::unique_ptr<std::string>> decoded;
  FingerprintInput::Metadata entries;
};

absl::StatusOr<NamedMetadata> MetadataOf(const GuardedRoute& route, const HeaderList& headers) {
  NamedMetadata named;
  for (const std::string& name : route.policy.fingerprint_metadata) {
    for (const std::string_view value : headers.ValuesOf(name)) {
      std::vector<std::string_view>& values = named.entries[name];
      if (!IsBinaryHeader(name)) {
        values.push_back(value);
        continue;
      }
      for (const absl::string_view part : absl::StrSplit(AbslView(value), ',')) {
        std::optional<std::string> bytes = DecodeBinaryHeader({part.data(), part.size()});
        if (!bytes.has_value()) return InvalidField(name, "is not base64");
        named.decoded.push_back(std::make_unique<std::string>(*std::move(bytes)));
        values.emplace_back(*named.decoded.back());
      }
    }
  }
  return named;
}

// The same for HTTP, which has no binary values.
NamedMetadata HeadersOf(const GuardedRoute& route, const HeaderList& headers) {
  NamedMetadata named;
  for (const std::string& name : route.policy.fingerprint_metadata) {
    std::vector<std::string_view> values = headers.ValuesOf(name);
    if (!values.empty()) named.entries[name] = std::move(values);
  }
  return named;
}

void AppendParts(const NamedMetadata& named, std::vector<std::string_view>& parts,
                 std::vector<std::unique_ptr<std::string>>& counts) {
  for (const auto& [name, values] : named.entries) {
    parts.push_back(name);
    counts.push_back(std::make_unique<std::string>(absl::StrCat(values.size())));
    parts.emplace_back(*counts.back());
    parts.insert(parts.end(), values.begin(), values.end());
  }
}

Fingerprint Exact(std::vector<std::string_view> parts, const NamedMetadata& named) {
  std::vector<std::unique_ptr<std::string>> counts;
  AppendParts(named, parts, counts);
  return ExactFingerprint(parts);
}

std::string_view DefaultPortOf(std::string_view scheme) {
  if (scheme == "https") return ":443";
  return scheme == "http" ? ":80" : "";
}

// Spellings of one host are one host.
std::string HostOf(const HeaderList& headers) {
  std::string host =
      absl::AsciiStrToLower(AbslView(headers.OnlyValueOf(":authority").value_or("")));
  const std::string_view port = DefaultPortOf(headers.OnlyValueOf(":scheme").value_or(""));
  if (absl::EndsWith(host, AbslView(port))) host.resize(host.size() - port.size());
  return host;
}

absl::Status NotARequest(const google::protobuf::Message& type) {
  return InvalidField("request", absl::StrCat("is not a ", type.GetDescriptor()->full_name()));
}

absl::StatusOr<std::string> Accepted(const GuardedRoute& route, absl::StatusOr<std::string> key) {
  if (!key.ok() || !route.key_validator) return key;
  if (absl::Status refused = CheckKey(route.key_validator, *key); !refused.ok()) return refused;
  return key;
}

// For types of dynamic messages, which are large: each of their fields has a place.
class EmptyMessages {
 public:
  explicit EmptyMessages(const google::protobuf::Message& message)
      : factory_(*message.GetReflection()->GetMessageFactory()) {}

  std::size_t BytesOf(const google::protobuf::Descriptor& type) {
    const auto [found, is_new] = bytes_.try_emplace(&type, 0);
    if (is_new) {
      const google::protobuf::Message* const empty = factory_.GetPrototype(&type);
      if (empty != nullptr) found->second = empty->SpaceUsedLong();
    }
    return found->second;
  }

 private:
  google::protobuf::MessageFactory& factory_;
  absl::flat_hash_map<const google::protobuf::Descriptor*, std::size_t> bytes_;
};

}  // namespace

absl::StatusOr<std::string> GrpcKey(const GuardedRoute& route, const HeaderList& headers,
                                    const google::protobuf::Message* message) {
  const std::vector<std::string_view> values = headers.ValuesOf(kKeyMetadata);
  if (!route.key_field.has_value() || message == nullptr) {
    return Accepted(route, ParseIdempotencyKey(values));
  }
  const std::string field = route.key_field->Read(*message);
  return Accepted(route, ParseIdempotencyKey(values, {route.key_field->name(), field}));
}

absl::StatusOr<std::string> HttpKey(const GuardedRoute& route, const HeaderList& headers) {
  const std::vector<std::string_view> values = headers.ValuesOf(kKeyMetadata);
  if (values.size() > 1) {
    return MakeError(Reason::kKeyInvalid,
                     "the request has several idempotency-key headers: send one");
  }
  return Accepted(route, ParseIdempotencyKey(values));
}

absl::StatusOr<std::size_t> ParsedFieldBytes(const GuardedRoute& route, std::string_view body,
                                             std::size_t most) {
  const absl::StatusOr<std::string_view> bytes = UnaryMessage(body);
  if (!bytes.ok()) return bytes.status();
  if (route.request_type == nullptr) return 0;
  google::protobuf::io::ArrayInputStream stream(bytes->data(), static_cast<int>(bytes->size()));
  google::protobuf::io::CodedInputStream in(&stream);
  EmptyMessages empty(*route.request_type);
  const FieldMemory fields = MeasureFields(
      in, *route.request_type->GetDescriptor(), most,
      [&empty](const google::protobuf::Descriptor& type) { return empty.BytesOf(type); });
  switch (fields.look) {
    case FieldMemory::Look::kWhole:
      return fields.bytes;
    case FieldMemory::Look::kOverBound:
      return InvalidField("request", "has more fields than one request may");
    case FieldMemory::Look::kDamaged:
      return NotARequest(*route.request_type);
  }
  return absl::InternalError("unknown look");
}

absl::StatusOr<GrpcCall> ReadGrpcCall(const GuardedRoute& route, std::string_view body) {
  const absl::StatusOr<std::string_view> bytes = UnaryMessage(body);
  if (!bytes.ok()) return bytes.status();
  GrpcCall call;
  call.bytes = *bytes;
  if (route.request_type == nullptr) return call;
  call.message.reset(route.request_type->New());
  if (!call.message->ParsePartialFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
    return NotARequest(*call.message);
  }
  return call;
}

absl::StatusOr<std::vector<Fingerprint>> GrpcFingerprints(const GuardedRoute& route,
                                                          std::string_view operation,
                                                          const HeaderList& headers,
                                                          const GrpcCall& call) {
  const absl::StatusOr<NamedMetadata> named = MetadataOf(route, headers);
  if (!named.ok()) return named.status();
  if (call.message == nullptr) {
    return std::vector<Fingerprint>{Exact({operation, call.bytes}, *named)};
  }
  const FieldPath key_field = route.key_field.has_value() ? route.key_field->path() : FieldPath();
  std::vector<Fingerprint> fingerprints = {
      FingerprintV1({operation, *call.message, key_field, named->entries})};
  if (fingerprints[0].digest.empty()) return InvalidField("request", "is nested too deeply");
  return fingerprints;
}

std::vector<Fingerprint> HttpFingerprints(const GuardedRoute& route, const HttpMessage& request) {
  const auto value = [&](std::string_view name) {
    return request.headers.OnlyValueOf(name).value_or("");
  };
  const std::string host = HostOf(request.headers);
  const std::string codings = ContentCodings(request.headers);
  return {
      Exact({value(":method"), host, value(":path"), value("content-type"), codings, request.body},
            HeadersOf(route, request.headers))};
}

}  // namespace idempotency::internal
