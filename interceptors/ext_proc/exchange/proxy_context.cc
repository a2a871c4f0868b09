#include "interceptors/ext_proc/exchange/proxy_context.h"

#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

// Envoy's key for them, whatever the filter is called in its configuration.
constexpr char kFilter[] = "envoy.filters.http.ext_proc";

}  // namespace

void ProxyContext::Add(const envoy::service::ext_proc::v3::ProcessingRequest& message) {
  using Modes = envoy::service::ext_proc::v3::ProtocolConfiguration;
  if (message.has_protocol_config()) {
    const Modes& modes = message.protocol_config();
    full_duplex_ = modes.request_body_mode() == Modes::FULL_DUPLEX_STREAMED &&
                   modes.response_body_mode() == Modes::FULL_DUPLEX_STREAMED;
  }
  if (message.observability_mode()) full_duplex_ = false;
  if (const auto found = message.attributes().find(kFilter); found != message.attributes().end()) {
    attributes_.MergeFrom(found->second);
  }
  for (const auto& [filter, values] : message.metadata_context().filter_metadata()) {
    metadata_[filter] = values;
  }
  bytes_ = attributes_.fields().empty() ? 0 : attributes_.SpaceUsedLong();
  for (const auto& [filter, values] : metadata_) bytes_ += filter.size() + values.SpaceUsedLong();
}

std::optional<std::string> ProxyContext::Attribute(std::string_view name) const {
  const auto found = attributes_.fields().find(std::string(name));
  if (found == attributes_.fields().end()) return std::nullopt;
  switch (found->second.kind_case()) {
    case google::protobuf::Value::kStringValue:
      return found->second.string_value();
    case google::protobuf::Value::kNumberValue:
      return absl::StrCat(found->second.number_value());
    case google::protobuf::Value::kBoolValue:
      return found->second.bool_value() ? "true" : "false";
    default:
      return std::nullopt;
  }
}

std::optional<std::string> ProxyContext::Metadata(std::string_view filter,
                                                  absl::Span<const std::string> path) const {
  const auto of_filter = metadata_.find(std::string(filter));
  if (of_filter == metadata_.end() || path.empty()) return std::nullopt;
  const google::protobuf::Struct* parent = &of_filter->second;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto found = parent->fields().find(path[i]);
    if (found == parent->fields().end()) return std::nullopt;
    const google::protobuf::Value& value = found->second;
    if (i + 1 < path.size()) {
      if (!value.has_struct_value()) return std::nullopt;
      parent = &value.struct_value();
    } else if (value.kind_case() == google::protobuf::Value::kStringValue) {
      return value.string_value();
    }
  }
  return std::nullopt;
}

}  // namespace idempotency::internal
