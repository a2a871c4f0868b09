#include "tracing/trace_context.h"

#include <algorithm>
#include <cstddef>

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

// version "-" trace id "-" parent id "-" flags; later versions may continue after another "-".
constexpr std::size_t kTraceIdAt = 3;
constexpr std::size_t kSpanIdAt = 36;
constexpr std::size_t kFlagsAt = 53;
constexpr std::size_t kLength = 55;

// Upper case is not permitted.
std::optional<std::uint8_t> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

// False unless `text` begins with the bytes in hex.
template <std::size_t kSize>
bool ParseHex(std::string_view text, std::array<std::uint8_t, kSize>& bytes) {
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::optional<std::uint8_t> high = HexDigit(text[2 * i]);
    const std::optional<std::uint8_t> low = HexDigit(text[2 * i + 1]);
    if (!high.has_value() || !low.has_value()) return false;
    bytes[i] = static_cast<std::uint8_t>(*high << 4U | *low);
  }
  return true;
}

template <typename Id>
void AppendHex(const Id& id, std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const std::uint8_t byte : id) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
}

template <typename Id>
bool IsZero(const Id& id) {
  return std::all_of(id.begin(), id.end(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kLength) return std::nullopt;
  if (text[kTraceIdAt - 1] != '-' || text[kSpanIdAt - 1] != '-' || text[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  if (!ParseHex(text, version) || !ParseHex(text.substr(kTraceIdAt), context.trace_id) ||
      !ParseHex(text.substr(kSpanIdAt), context.span_id) ||
      !ParseHex(text.substr(kFlagsAt), flags)) {
    return std::nullopt;
  }
  if (version[0] == 0xFF || IsZero(context.trace_id) || IsZero(context.span_id)) {
    return std::nullopt;
  }
  const bool longer = text.size() > kLength;
  if (longer && (version[0] == 0 || text[kLength] != '-')) return std::nullopt;
  context.sampled = (flags[0] & 1U) != 0;
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  std::string text = "00-";
  AppendHex(context.trace_id, text);
  text += '-';
  AppendHex(context.span_id, text);
  text += context.sampled ? "-01" : "-00";
  return text;
}

SpanId NewSpanId() {
  SpanId id{};
  do {
    const Uuid::Bytes random = Uuid::Random().bytes();
    // The first bytes, before those of version and variant.
    std::copy_n(random.begin(), 6, id.begin());
    std::copy_n(random.end() - 2, 2, id.begin() + 6);
  } while (IsZero(id));
  return id;
}

}  // namespace idempotency::internal
