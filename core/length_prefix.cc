#include "core/length_prefix.h"

#include <array>
#include <cstddef>

namespace idempotency::internal {

void AppendBigEndian32(std::uint32_t value, std::string& out) {
  const std::array<char, 4> bytes = {
      static_cast<char>(value >> 24), static_cast<char>((value >> 16) & 0xFF),
      static_cast<char>((value >> 8) & 0xFF), static_cast<char>(value & 0xFF)};
  out.append(bytes.data(), bytes.size());
}

std::uint32_t ReadBigEndian32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = (value << 8) | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

void AppendPart(std::string_view part, std::string& out) {
  AppendBigEndian32(static_cast<std::uint32_t>(part.size()), out);
  out.append(part);
}

}  // namespace idempotency::internal
