#ifndef IDEMPOTENCY_SERVER_SEALING_SEALED_BOX_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALED_BOX_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/sealing/secret.h"

namespace idempotency::internal {

// AES-256-GCM: a random nonce of 12 bytes, the ciphertext, a tag of 16 bytes. Thread-safe; abort
// the process if OpenSSL cannot encrypt or has no random bytes.

// What a box adds to its plaintext.
inline constexpr std::size_t kBoxNonceBytes = 12;
inline constexpr std::size_t kBoxTagBytes = 16;
inline constexpr std::size_t kBoxBytes = kBoxNonceBytes + kBoxTagBytes;

// The random bytes of the nonces of `boxes` boxes, drawn at once: each draw costs as much as
// sealing 1 KiB.
std::string RandomNonces(std::size_t boxes);

// Adds the box of `plaintext` to `out`. `nonce` has kBoxNonceBytes, which no other box of this key
// has.
void AppendBox(const Secret& key, std::string_view nonce, std::string_view associated,
               std::string_view plaintext, std::string& out);

// The plaintext, or nullopt unless the box was made with this key and these associated bytes.
std::optional<std::string> OpenBox(const Secret& key, std::string_view associated,
                                   std::string_view box);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALED_BOX_H_
