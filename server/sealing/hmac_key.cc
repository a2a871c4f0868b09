#include "server/sealing/hmac_key.h"

#include <algorithm>
#include <array>

#include "core/fatal.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kBlockBytes = 64;

// Fetched once and kept: see core/sha256.cc.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

void Require(bool done) {
  internal::Require(done,
                    "OpenSSL cannot compute HMAC-SHA256: check its configuration (OPENSSL_CONF)");
}

}  // namespace

HmacKey::HmacKey(std::string_view key) : inner_(Padded(key, 0x36)), outer_(Padded(key, 0x5c)) {}

HmacKey::Context HmacKey::Padded(std::string_view key, unsigned char pad) {
  std::array<unsigned char, kBlockBytes> block{};
  // Every key of this program has 32 bytes or is a short salt.
  Require(key.size() <= block.size());
  std::copy(key.begin(), key.end(), block.begin());
  for (unsigned char& byte : block) byte ^= pad;
  Context context(EVP_MD_CTX_new());
  Require(context != nullptr && Algorithm() != nullptr &&
          EVP_DigestInit_ex2(context.get(), Algorithm(), nullptr) == 1 &&
          EVP_DigestUpdate(context.get(), block.data(), block.size()) == 1);
  OPENSSL_cleanse(block.data(), block.size());
  return context;
}

HmacKey HmacKey::Extract(std::string_view salt, std::string_view secret) {
  Sha256Digest extracted = HmacKey(salt).Sign({secret});
  HmacKey key({reinterpret_cast<const char*>(extracted.data()), extracted.size()});
  OPENSSL_cleanse(extracted.data(), extracted.size());
  return key;
}

Sha256Digest HmacKey::Sign(std::initializer_list<std::string_view> parts) const {
  Sha256Digest digest;
  const Context context(EVP_MD_CTX_new());
  Require(context != nullptr && EVP_MD_CTX_copy_ex(context.get(), inner_.get()) == 1);
  for (const std::string_view part : parts) {
    Require(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  Require(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1 &&
          EVP_MD_CTX_copy_ex(context.get(), outer_.get()) == 1 &&
          EVP_DigestUpdate(context.get(), digest.data(), digest.size()) == 1 &&
          EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1);
  return digest;
}

void HmacKey::Expand(std::string_view info, Secret& key) const {
  // One block: T(1) of RFC 5869.
  Sha256Digest block = Sign({info, std::string_view("\x01", 1)});
  std::copy(block.begin(), block.end(), key.data());
  OPENSSL_cleanse(block.data(), block.size());
}

HmacKey HmacKey::Expand(std::string_view info) const {
  Secret key;
  Expand(info, key);
  return HmacKey(key.view());
}

}  // namespace idempotency::internal
