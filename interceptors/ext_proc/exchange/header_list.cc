#include "interceptors/ext_proc/exchange/header_list.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"

namespace idempotency::internal {

HeaderList::HeaderList(const envoy::config::core::v3::HeaderMap& wire) {
  headers_.reserve(static_cast<std::size_t>(wire.headers_size()));
  for (const auto& header : wire.headers()) {
    headers_.emplace_back(absl::AsciiStrToLower(header.key()),
                          header.raw_value().empty() ? header.value() : header.raw_value());
  }
}

std::vector<std::string_view> HeaderList::ValuesOf(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : headers_) {
    if (key == name) values.emplace_back(value);
  }
  return values;
}

std::optional<std::string_view> HeaderList::OnlyValueOf(std::string_view name) const {
  const std::vector<std::string_view> values = ValuesOf(name);
  if (values.size() != 1) return std::nullopt;
  return values[0];
}

bool HeaderList::HasRepeatedName() const {
  absl::flat_hash_set<std::string_view> seen;
  return !std::all_of(headers_.begin(), headers_.end(),
                      [&](const Header& header) { return seen.insert(header.first).second; });
}

std::size_t HeaderList::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [key, value] : headers_) bytes += sizeof(Header) + key.size() + value.size();
  return bytes;
}

}  // namespace idempotency::internal
