#include "server/sealing/sealed_box.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "core/fatal.h"

namespace idempotency::internal {
namespace {

// Fetched once and kept: see core/sha256.cc.
const EVP_CIPHER* Algorithm() {
  static const EVP_CIPHER* const algorithm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return algorithm;
}

void Require(bool done) {
  internal::Require(done,
                    "OpenSSL cannot compute AES-256-GCM: check its configuration (OPENSSL_CONF)");
}

// Counts the forks of this process: a child must not draw the nonces that its parent draws.
std::uint64_t Forks() {
  static std::atomic<std::uint64_t> forks{0};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  Require(registered == 0);
  return forks.load(std::memory_order_relaxed);
}

// Random bytes of a thread, drawn many at once: one draw costs as much as sealing 1 KiB. Nonces are
// no secrets, so that keeping them for a while gives nothing away.
class NonceReserve {
 public:
  std::string_view Next() {
    const std::uint64_t forks = Forks();
    if (next_ == bytes_.size() || forks != forks_) {
      Require(RAND_bytes(bytes_.data(), static_cast<int>(bytes_.size())) == 1);
      next_ = 0;
      forks_ = forks;
    }
    const std::string_view nonce(reinterpret_cast<const char*>(&bytes_[next_]), kBoxNonceBytes);
    next_ += kBoxNonceBytes;
    return nonce;
  }

 private:
  std::array<unsigned char, 64 * kBoxNonceBytes> bytes_{};
  std::size_t next_ = bytes_.size();
  std::uint64_t forks_ = 0;
};

std::string_view NextNonce() {
  static thread_local NonceReserve reserve;
  return reserve.Next();
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* Bytes(std::string& text, std::size_t at) {
  return reinterpret_cast<unsigned char*>(&text[at]);
}

}  // namespace

BoxKey::BoxKey(const Secret& key) : context_(EVP_CIPHER_CTX_new()) {
  Require(context_ != nullptr && Algorithm() != nullptr &&
          EVP_CipherInit_ex2(context_.get(), Algorithm(), key.data(), nullptr, 1, nullptr) == 1);
}

void BoxKey::Append(std::string_view associated, std::string_view plaintext, std::string& out) {
  const std::string_view nonce = NextNonce();
  out.append(nonce);
  const std::size_t text_at = out.size();
  const std::size_t tag_at = text_at + plaintext.size();
  out.resize(tag_at + kBoxTagBytes);
  EVP_CIPHER_CTX* const context = context_.get();
  int size = 0;
  Require(EVP_CipherInit_ex2(context, nullptr, nullptr, Bytes(nonce), 1, nullptr) == 1 &&
          EVP_EncryptUpdate(context, nullptr, &size, Bytes(associated),
                            static_cast<int>(associated.size())) == 1 &&
          EVP_EncryptUpdate(context, Bytes(out, text_at), &size, Bytes(plaintext),
                            static_cast<int>(plaintext.size())) == 1 &&
          EVP_EncryptFinal_ex(context, Bytes(out, tag_at), &size) == 1 &&
          EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, static_cast<int>(kBoxTagBytes),
                              Bytes(out, tag_at)) == 1);
}

std::optional<std::string> BoxKey::Open(std::string_view associated, std::string_view box) {
  if (box.size() < kBoxBytes) return std::nullopt;
  const std::string_view nonce = box.substr(0, kBoxNonceBytes);
  const std::string_view sealed = box.substr(kBoxNonceBytes, box.size() - kBoxBytes);
  std::string tag(box.substr(box.size() - kBoxTagBytes));
  // One byte more, so that there is a place to write to when there is no text.
  std::string plaintext(sealed.size() + 1, '\0');
  EVP_CIPHER_CTX* const context = context_.get();
  int size = 0;
  const bool opened =
      EVP_CipherInit_ex2(context, nullptr, nullptr, Bytes(nonce), 0, nullptr) == 1 &&
      EVP_DecryptUpdate(context, nullptr, &size, Bytes(associated),
                        static_cast<int>(associated.size())) == 1 &&
      EVP_DecryptUpdate(context, Bytes(plaintext, 0), &size, Bytes(sealed),
                        static_cast<int>(sealed.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, static_cast<int>(kBoxTagBytes),
                          Bytes(tag, 0)) == 1 &&
      EVP_DecryptFinal_ex(context, Bytes(plaintext, sealed.size()), &size) == 1;
  if (!opened) {
    // What was decrypted without proof is nobody's text, and gRPC does not get OpenSSL's errors.
    OPENSSL_cleanse(plaintext.data(), plaintext.size());
    ERR_clear_error();
    return std::nullopt;
  }
  plaintext.resize(sealed.size());
  return plaintext;
}

}  // namespace idempotency::internal
