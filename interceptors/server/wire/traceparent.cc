#include "interceptors/server/wire/traceparent.h"

#include <algorithm>
#include <cstddef>
#include <memory>

namespace idempotency::internal {
namespace {

// Version 00 has this length; later versions may continue after another '-'.
constexpr std::size_t kLength = 55;
constexpr std::size_t kTraceIdAt = 3;
constexpr std::size_t kTraceIdLength = 32;
constexpr std::size_t kParentIdAt = 36;
constexpr std::size_t kParentIdLength = 16;
constexpr std::size_t kFlagsAt = 53;
// The limit of a label's value; no version of the header is this long yet.
constexpr std::size_t kMaxLength = 256;

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A header may hold any byte; a label is text.
bool IsVisibleAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x21 && c <= 0x7E; });
}

bool IsId(std::string_view text) {
  return IsLowerHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

bool IsTraceparent(std::string_view value) {
  if (value.size() < kLength || value.size() > kMaxLength) return false;
  const std::string_view version = value.substr(0, 2);
  if (!IsLowerHex(version) || version == "ff") return false;
  if (value.size() > kLength && (version == "00" || value[kLength] != '-')) return false;
  if (!IsVisibleAscii(value.substr(kLength))) return false;
  return value[kTraceIdAt - 1] == '-' && IsId(value.substr(kTraceIdAt, kTraceIdLength)) &&
         value[kParentIdAt - 1] == '-' && IsId(value.substr(kParentIdAt, kParentIdLength)) &&
         value[kFlagsAt - 1] == '-' && IsLowerHex(value.substr(kFlagsAt, 2));
}

const std::string& TraceparentOf(const google::protobuf::Map<std::string, std::string>& labels) {
  // Never destroyed: calls may end after static destruction has started.
  static const std::string& none = *std::make_unique<const std::string>().release();
  if (labels.empty()) return none;
  const auto found = labels.find(std::string(kTraceparentName));
  return found == labels.end() ? none : found->second;
}

}  // namespace idempotency::internal
