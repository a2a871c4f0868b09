#include "grpc_idempotency/uuid.h"

#include <openssl/rand.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "core/fatal.h"
#include "core/hex.h"

namespace idempotency {

using internal::HexValue;

namespace {

constexpr std::size_t kTextSize = 36;
constexpr std::int64_t kMaxMillis = (std::int64_t{1} << 48) - 1;

// The position of each byte's two digits in the text; hyphens are between.
constexpr std::array<std::uint8_t, 16> kDigitsAt = {0,  2,  4,  6,  9,  11, 14, 16,
                                                    19, 21, 24, 26, 28, 30, 32, 34};
constexpr std::array<std::uint8_t, 4> kHyphensAt = {8, 13, 18, 23};

// How often this process is a child of the one that drew its bytes.
std::atomic<std::uint32_t> forks{0};

// Random bytes of OpenSSL for several UUIDs: a request costs far more than the bytes that it
// returns. After a fork() the child draws its own. Thread-compatible: one for each thread.
class RandomBlock {
 public:
  Uuid::Bytes Next() {
    if (next_ == block_.size() || forks_ != forks.load(std::memory_order_relaxed)) Draw();
    return block_[next_++];
  }

 private:
  void Draw() {
    // Before there are bytes that a child could inherit.
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    internal::Require(registered == 0, "pthread_atfork failed: a child would draw the same UUIDs");
    forks_ = forks.load(std::memory_order_relaxed);
    next_ = 0;
    const int drawn = RAND_bytes(block_.front().data(), static_cast<int>(sizeof(block_)));
    internal::Require(drawn == 1, "OpenSSL has no random numbers for a UUID");
  }

  std::array<Uuid::Bytes, 16> block_;
  std::size_t next_ = block_.size();
  std::uint32_t forks_ = 0;
};

Uuid::Bytes RandomBytes() {
  thread_local RandomBlock block;
  return block.Next();
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
  for (const std::size_t at : kHyphensAt) {
    if (text[at] != '-') return std::nullopt;
  }
  // Every call of the service parses several, so the digits are judged once, at
  // the end: with a bad one a value is negative. Unrolled, the places are no table.
  Bytes bytes{};
  int digits = 0;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int value = HexValue(text[kDigitsAt[i]]) * 16 | HexValue(text[kDigitsAt[i] + 1]);
    digits |= value;
    bytes[i] = static_cast<std::uint8_t>(value);
  }
  if (digits < 0) return std::nullopt;
  return Uuid(bytes);
}

std::string Uuid::ToString() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(kTextSize, '-');
#pragma GCC unroll 16
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    text[kDigitsAt[i]] = kDigits[bytes_[i] >> 4];
    text[kDigitsAt[i] + 1] = kDigits[bytes_[i] & 0x0F];
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
