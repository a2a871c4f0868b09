#ifndef IDEMPOTENCY_CORE_SHA256_H_
#define IDEMPOTENCY_CORE_SHA256_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::internal {

using Sha256Digest = std::array<std::uint8_t, 32>;

// A view of the digest.
inline std::string_view AsBytes(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// SHA-256 of the bytes. Aborts the process if OpenSSL cannot compute it: this
// program cannot work without it. Thread-safe.
Sha256Digest Sha256(std::string_view bytes);

// HMAC-SHA256 (RFC 2104) of the bytes; the same otherwise.
Sha256Digest HmacSha256(std::string_view key, std::string_view bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_SHA256_H_
