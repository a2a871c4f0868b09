#include "explanation/printable_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "core/utf8.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kLongestCharacter = 4;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// The well-formed character at the beginning of `text`; empty if there is none.
std::string_view FirstCharacter(std::string_view text) {
  for (std::size_t size = 1; size <= kLongestCharacter && size <= text.size(); ++size) {
    if (IsUtf8(text.substr(0, size))) return text.substr(0, size);
  }
  return {};
}

std::uint32_t CodePoint(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  std::uint32_t code = first & (0x7FU >> character.size());
  for (const char byte : character.substr(1)) {
    code = (code << 6U) | (static_cast<unsigned char>(byte) & 0x3FU);
  }
  return code;
}

// Characters that a terminal acts on, or does not show (Unicode 15, categories Cc, Cf, Zl, Zp, as
// far as they are in use).
bool IsHidden(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0xAD || code == 0x61C ||
         code == 0x180E || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE007F);
}

}  // namespace

std::string PrintableText(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const std::string_view character = FirstCharacter(text);
    if (character.empty()) {
      absl::StrAppendFormat(&printable, "\\x%02x", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    const std::uint32_t code = CodePoint(character);
    if (code == '\\') {
      printable += "\\\\";
    } else if (IsHidden(code)) {
      absl::StrAppendFormat(&printable, "\\u{%x}", code);
    } else {
      printable += character;
    }
    text.remove_prefix(character.size());
  }
  return printable;
}

std::size_t ColumnsOf(std::string_view printable) {
  std::size_t columns = 0;
  for (const char byte : printable) columns += IsContinuation(byte) ? 0 : 1;
  return columns;
}

std::string CutToColumns(std::string_view printable, std::size_t columns) {
  if (ColumnsOf(printable) <= columns || columns == 0) return std::string(printable);
  std::size_t end = 0;
  for (std::size_t kept = 0; end < printable.size(); ++end) {
    if (!IsContinuation(printable[end]) && ++kept == columns) break;
  }
  return std::string(printable.substr(0, end)) + "…";
}

}  // namespace idempotency::internal
