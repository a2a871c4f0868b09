#include "core/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace idempotency::internal {
namespace {

std::uint8_t ByteAt(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

bool IsContinuation(std::uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The length of a character by its first byte; 0 if nothing starts with it.
std::size_t LengthByFirstByte(std::uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  if (first < 0xF5) return 4;
  return 0;
}

// The length of a prefix that is ASCII; nearly all text is, and is passed eight bytes at a time.
std::size_t AsciiPrefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t passed = 0;
  for (std::uint64_t word = 0; text.size() - passed >= sizeof(word); passed += sizeof(word)) {
    std::memcpy(&word, text.data() + passed, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  while (passed < text.size() && ByteAt(text, passed) < 0x80) ++passed;
  return passed;
}

// The second byte rules out overlong forms, surrogates and the far end.
bool IsSecondByte(std::uint8_t first, std::uint8_t second) {
  if (first == 0xE0) return second >= 0xA0 && second <= 0xBF;
  if (first == 0xED) return second >= 0x80 && second <= 0x9F;
  if (first == 0xF0) return second >= 0x90 && second <= 0xBF;
  if (first == 0xF4) return second >= 0x80 && second <= 0x8F;
  return IsContinuation(second);
}

// The length of the well-formed character at the start of `text`, which is not
// empty; 0 if it is not well-formed.
std::size_t CharacterLength(std::string_view text) {
  const std::uint8_t first = ByteAt(text, 0);
  const std::size_t length = LengthByFirstByte(first);
  if (length < 2) return length;
  if (text.size() < length || !IsSecondByte(first, ByteAt(text, 1))) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (!IsContinuation(ByteAt(text, i))) return 0;
  }
  return length;
}

bool IsPrintableAscii(std::uint8_t byte) { return byte >= 0x20 && byte < 0x7F; }

bool IsControl(std::string_view character) {
  const std::uint8_t first = ByteAt(character, 0);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && ByteAt(character, 1) < 0xA0);
}

}  // namespace

bool IsUtf8(std::string_view text) {
  text.remove_prefix(AsciiPrefix(text));
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
    text.remove_prefix(AsciiPrefix(text));
  }
  return true;
}

bool IsUtf8WithoutControls(std::string_view text) {
  while (!text.empty()) {
    // Nearly all text.
    if (IsPrintableAscii(ByteAt(text, 0))) {
      text.remove_prefix(1);
      continue;
    }
    const std::size_t length = CharacterLength(text);
    if (length == 0 || IsControl(text.substr(0, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ToUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (length == 0) {
      out.push_back('?');
      text.remove_prefix(1);
    } else {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string WithoutControls(std::string text) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < text.size(); i += std::max<std::size_t>(length, 1)) {
    const std::string_view rest = std::string_view(text).substr(i);
    length = CharacterLength(rest);
    if (length > 0 && IsControl(rest.substr(0, length))) text.replace(i, length, length, ' ');
  }
  return text;
}

std::string_view Utf8Prefix(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && IsContinuation(ByteAt(text, end))) --end;
  return text.substr(0, end);
}

}  // namespace idempotency::internal
