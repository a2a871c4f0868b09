#ifndef IDEMPOTENCY_CORE_HEX_H_
#define IDEMPOTENCY_CORE_HEX_H_

#include <array>
#include <cstdint>

namespace idempotency::internal {

constexpr std::array<std::int8_t, 256> MakeHexValues() {
  std::array<std::int8_t, 256> values{};
  for (std::int8_t& value : values) value = -1;
  for (int digit = 0; digit < 10; ++digit) values['0' + digit] = static_cast<std::int8_t>(digit);
  for (int digit = 10; digit < 16; ++digit) {
    values['a' + digit - 10] = static_cast<std::int8_t>(digit);
    values['A' + digit - 10] = static_cast<std::int8_t>(digit);
  }
  return values;
}
inline constexpr std::array<std::int8_t, 256> kHexValues = MakeHexValues();

// The value of a hexadecimal digit, in either case; -1 for any other character.
inline int HexValue(char c) { return kHexValues[static_cast<std::uint8_t>(c)]; }

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_HEX_H_
