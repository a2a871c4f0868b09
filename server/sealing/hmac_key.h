#ifndef IDEMPOTENCY_SERVER_SEALING_HMAC_KEY_H_
#define IDEMPOTENCY_SERVER_SEALING_HMAC_KEY_H_

#include <openssl/evp.h>

#include <initializer_list>
#include <memory>
#include <string_view>

#include "core/sha256.h"
#include "server/sealing/secret.h"

namespace idempotency::internal {

// A key of HMAC-SHA256 (RFC 2104), and the derivation of further keys from it by HKDF (RFC 5869).
// Keeps the state of the hash after the padded key, which saves a third of the work for a short
// text. OpenSSL wipes that state at the end.
//
// Aborts the process if OpenSSL cannot compute a hash, as core/sha256.h. Thread-safe.
class HmacKey {
 public:
  explicit HmacKey(std::string_view key);

  // HKDF-Extract: the key from which others are derived.
  static HmacKey Extract(std::string_view salt, std::string_view secret);

  // The HMAC of the parts, one behind the other.
  Sha256Digest Sign(std::initializer_list<std::string_view> parts) const;

  // HKDF-Expand with `info`, for one key of 32 bytes.
  void Expand(std::string_view info, Secret& key) const;
  HmacKey Expand(std::string_view info) const;

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  using Context = std::unique_ptr<EVP_MD_CTX, Free>;

  static Context Padded(std::string_view key, unsigned char pad);

  Context inner_;
  Context outer_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_HMAC_KEY_H_
