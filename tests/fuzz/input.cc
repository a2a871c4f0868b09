#include "tests/fuzz/input.h"

#include <algorithm>

namespace idempotency::internal::fuzz {

std::uint8_t Input::Byte() {
  const std::string_view byte = Bytes(1);
  return byte.empty() ? 0 : static_cast<std::uint8_t>(byte.front());
}

std::int64_t Input::Integer() {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(Byte()) << (8 * i);
  return static_cast<std::int64_t>(value);
}

std::string_view Input::Bytes(std::size_t count) {
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(taken.size());
  return taken;
}

std::string_view Input::Block() {
  const std::size_t low = Byte();
  return Bytes(low | (static_cast<std::size_t>(Byte()) << 8));
}

std::string_view Input::Line() {
  const std::string_view line = Bytes(std::min(rest_.find('\n'), rest_.size()));
  Bytes(1);
  return line;
}

std::string_view Input::Rest() { return Bytes(rest_.size()); }

}  // namespace idempotency::internal::fuzz
