#include "core/uuid.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>

namespace idempotency {
namespace {

constexpr std::size_t kTextSize = 36;
constexpr std::int64_t kMaxMillis = (std::int64_t{1} << 48) - 1;

bool IsHyphenPosition(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

// -1 for anything that is not a hexadecimal digit.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Uuid::Bytes RandomBytes() {
  Uuid::Bytes bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::abort();
  return bytes;
}

void SetVersion(int version, Uuid::Bytes& bytes) {
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | (version << 4));
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3F) | 0x80);
}

}  // namespace

Uuid Uuid::Random() {
  Bytes bytes = RandomBytes();
  SetVersion(4, bytes);
  return Uuid(bytes);
}

Uuid Uuid::TimeOrdered(absl::Time now) {
  const Bytes random = RandomBytes();
  Rest rest;
  std::copy_n(random.begin(), rest.size(), rest.begin());
  return TimeOrdered(now, rest);
}

Uuid Uuid::TimeOrdered(absl::Time at, const Rest& rest) {
  Bytes bytes;
  const std::int64_t millis = std::clamp<std::int64_t>(absl::ToUnixMillis(at), 0, kMaxMillis);
  for (int i = 0; i < 6; ++i) {
    bytes[i] = static_cast<std::uint8_t>((millis >> (8 * (5 - i))) & 0xFF);
  }
  std::copy(rest.begin(), rest.end(), bytes.begin() + 6);
  SetVersion(7, bytes);
  return Uuid(bytes);
}

std::optional<Uuid> Uuid::Parse(std::string_view text) {
  if (text.size() != kTextSize) return std::nullopt;
  Bytes bytes{};
  std::size_t digits = 0;
  for (std::size_t i = 0; i < kTextSize; ++i) {
    if (IsHyphenPosition(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int value = HexValue(text[i]);
    if (value < 0) return std::nullopt;
    std::uint8_t& byte = bytes[digits / 2];
    byte = static_cast<std::uint8_t>((byte << 4) | value);
    ++digits;
  }
  return Uuid(bytes);
}

std::string Uuid::ToString() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(kTextSize);
  for (const std::uint8_t byte : bytes_) {
    if (IsHyphenPosition(text.size())) text.push_back('-');
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0x0F]);
  }
  return text;
}

std::optional<absl::Time> Uuid::TimeOrderedAt() const {
  if ((bytes_[6] >> 4) != 7 || (bytes_[8] & 0xC0) != 0x80) return std::nullopt;
  std::int64_t millis = 0;
  for (int i = 0; i < 6; ++i) millis = (millis << 8) | bytes_[i];
  return absl::FromUnixMillis(millis);
}

}  // namespace idempotency
