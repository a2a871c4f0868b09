#include "bench/numbered_keys.h"

#include <cstring>

#include "absl/time/clock.h"

namespace idempotency::internal::bench {
namespace {

constexpr std::uint64_t kTokens = 0x746F6B656E730000;
constexpr std::uint64_t kShares = 0x7368617265730000;

// The finaliser of splitmix64: every bit of the result depends on every bit of
// the value.
std::uint64_t Mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

Uuid RandomLooking(std::uint64_t seed, std::uint64_t number) {
  const std::uint64_t halves[2] = {Mix(seed ^ Mix(number)), Mix(~seed ^ Mix(number))};
  Uuid::Bytes bytes;
  std::memcpy(bytes.data(), halves, bytes.size());
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3F) | 0x80);
  return Uuid(bytes);
}

// Uniform in [0, 1).
double Fraction(std::uint64_t value) { return static_cast<double>(value >> 11) * 0x1.0p-53; }

}  // namespace

absl::Time NumberedKeys::TimeAt(std::uint64_t number) const {
  if (!options_.first.has_value()) return absl::Now();
  return *options_.first + absl::Milliseconds(static_cast<std::int64_t>(number / kKeysPerMilli));
}

std::string NumberedKeys::At(std::uint64_t number) const {
  const Uuid random = RandomLooking(options_.seed, number);
  if (options_.hashed_share > 0 &&
      Fraction(Mix(options_.seed ^ kShares ^ number)) < options_.hashed_share) {
    return random.ToString();
  }
  Uuid::Rest rest;
  std::memcpy(rest.data(), random.bytes().data(), rest.size());
  return Uuid::TimeOrdered(TimeAt(number), rest).ToString();
}

std::string NumberedKeys::TokenAt(std::uint64_t number) const {
  return RandomLooking(options_.seed ^ kTokens, number).ToString();
}

}  // namespace idempotency::internal::bench
