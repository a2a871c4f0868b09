#include "server/store/redis/slots.h"

#include <cstdint>

namespace idempotency::internal {
namespace {

constexpr std::uint16_t kPolynomial = 0x1021;

std::uint16_t Crc16(std::string_view text) {
  std::uint16_t crc = 0;
  for (const char c : text) {
    crc = static_cast<std::uint16_t>(crc ^ (static_cast<std::uint8_t>(c) << 8));
    for (int bit = 0; bit < 8; ++bit) {
      const bool high = (crc & 0x8000) != 0;
      crc = static_cast<std::uint16_t>(crc << 1);
      if (high) crc = static_cast<std::uint16_t>(crc ^ kPolynomial);
    }
  }
  return crc;
}

}  // namespace

int RedisSlotOf(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close != open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return Crc16(key) % kRedisSlots;
}

}  // namespace idempotency::internal
