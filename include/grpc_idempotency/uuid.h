#ifndef GRPC_IDEMPOTENCY_UUID_H_
#define GRPC_IDEMPOTENCY_UUID_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"

namespace idempotency {

// 128 bits in the layout of RFC 9562. A value type; thread-compatible.
class Uuid {
 public:
  using Bytes = std::array<std::uint8_t, 16>;

  // The nil UUID.
  Uuid() = default;
  explicit Uuid(const Bytes& bytes) : bytes_(bytes) {}

  // A version 4 UUID from OpenSSL's generator: 122 of the 128 bits are random, the others are
  // the version and the variant. Aborts the process if the generator fails: a token that can be
  // guessed would be worse.
  static Uuid Random();
  // RFC 9562 version 7: `now` in milliseconds, then 74 random bits.
  static Uuid TimeOrdered(absl::Time now);
  // The same with 74 of the 80 bits of `rest` instead of random ones: the version and the
  // variant replace the others.
  using Rest = std::array<std::uint8_t, 10>;
  static Uuid TimeOrdered(absl::Time at, const Rest& rest);
  // Parses the 36-character form with hyphens, in either case; nullopt for any other text.
  static std::optional<Uuid> Parse(std::string_view text);

  // The 36-character form in lower case.
  std::string ToString() const;
  const Bytes& bytes() const { return bytes_; }
  bool is_nil() const { return *this == Uuid(); }
  // The creation time of a version 7 UUID, to the millisecond; nullopt for any other version or
  // variant.
  std::optional<absl::Time> TimeOrderedAt() const;

  friend bool operator==(const Uuid& a, const Uuid& b) { return a.bytes_ == b.bytes_; }
  friend bool operator!=(const Uuid& a, const Uuid& b) { return !(a == b); }
  friend bool operator<(const Uuid& a, const Uuid& b) { return a.bytes_ < b.bytes_; }
  template <typename H>
  friend H AbslHashValue(H h, const Uuid& u) {
    return H::combine(std::move(h), u.bytes_);
  }

 private:
  Bytes bytes_{};
};

// The primary key of a record: see RecordIdFor() in grpc_idempotency/record_key.h.
using RecordId = Uuid;

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_UUID_H_
