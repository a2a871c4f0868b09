#ifndef IDEMPOTENCY_SERVER_SEALING_SEALED_BOX_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALED_BOX_H_

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/sealing/secret.h"

namespace idempotency::internal {

// AES-256-GCM: a random nonce of 12 bytes, the ciphertext, a tag of 16 bytes. What is here aborts
// the process if OpenSSL cannot encrypt or has no random bytes.

// The bytes that a box adds to its plaintext.
inline constexpr std::size_t kBoxNonceBytes = 12;
inline constexpr std::size_t kBoxTagBytes = 16;
inline constexpr std::size_t kBoxBytes = kBoxNonceBytes + kBoxTagBytes;

// A key, expanded once for several boxes. Thread-compatible.
class BoxKey {
 public:
  explicit BoxKey(const Secret& key);

  // Adds the box of `plaintext` to `out`, under a new nonce.
  void Append(std::string_view associated, std::string_view plaintext, std::string& out);

  // The plaintext, or nullopt unless the box was made with this key and these associated bytes.
  std::optional<std::string> Open(std::string_view associated, std::string_view box);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };

  // OpenSSL wipes the key that it expanded when it frees the context.
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALED_BOX_H_
