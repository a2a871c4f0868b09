#include "core/sha256.h"

#include <openssl/evp.h>

#include "core/fatal.h"

namespace idempotency::internal {
namespace {

// OpenSSL 3 looks an algorithm up by name on every use of EVP_sha256(), which
// costs more than hashing a short text. Fetched once and kept.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

}  // namespace

Sha256Digest Sha256(std::string_view bytes) {
  Sha256Digest digest;
  const EVP_MD* algorithm = Algorithm();
  if (algorithm == nullptr ||
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, algorithm, nullptr) != 1) {
    Fatal("OpenSSL cannot compute SHA-256: check its configuration (OPENSSL_CONF)");
  }
  return digest;
}

Sha256Digest HmacSha256(std::string_view key, std::string_view bytes) {
  Sha256Digest digest;
  std::size_t size = 0;
  if (EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
                reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data(),
                digest.size(), &size) == nullptr ||
      size != digest.size()) {
    Fatal("OpenSSL cannot compute HMAC-SHA256: check its configuration (OPENSSL_CONF)");
  }
  return digest;
}

}  // namespace idempotency::internal
