#ifndef IDEMPOTENCY_CORE_SHA256_H_
#define IDEMPOTENCY_CORE_SHA256_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::internal {

using Sha256Digest = std::array<std::uint8_t, 32>;

// SHA-256 of the bytes. Aborts the process if OpenSSL cannot compute it: this
// program cannot work without it. Thread-safe.
Sha256Digest Sha256(std::string_view bytes);

// HMAC-SHA256 (RFC 2104) of the bytes; the same otherwise.
Sha256Digest HmacSha256(std::string_view key, std::string_view bytes);

// Adds `value` as 4 bytes, big-endian: the encoding of lengths in hashed data.
void AppendBigEndian32(std::uint32_t value, std::string& out);
// The first 4 bytes as such a number; `bytes` has them.
std::uint32_t ReadBigEndian32(std::string_view bytes);
// Adds `part` after its length, so that no two lists of parts look alike.
void AppendPart(std::string_view part, std::string& out);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_SHA256_H_
