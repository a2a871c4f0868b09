#include "core/sha256.h"

#include <openssl/evp.h>

#include <memory>

#include "core/fatal.h"

namespace idempotency::internal {
namespace {

// OpenSSL 3 looks an algorithm up by name on every use of EVP_sha256(), which
// costs more than hashing a short text. Fetched once and kept.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// The thread's own: to allocate one for each digest takes a third of the time of a short digest.
EVP_MD_CTX* Context() {
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  return context.get();
}

}  // namespace

Sha256Digest Sha256(std::string_view bytes) {
  Sha256Digest digest;
  const EVP_MD* algorithm = Algorithm();
  EVP_MD_CTX* context = Context();
  if (algorithm == nullptr || context == nullptr ||
      EVP_DigestInit_ex2(context, algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context, bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context, digest.data(), nullptr) != 1) {
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
