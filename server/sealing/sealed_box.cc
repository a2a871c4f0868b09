#include "server/sealing/sealed_box.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstdlib>
#include <memory>

namespace idempotency::internal {
namespace {

struct Free {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
// OpenSSL wipes the key that it expanded when it frees a context.
using Context = std::unique_ptr<EVP_CIPHER_CTX, Free>;

// Fetched once and kept: see core/sha256.cc.
const EVP_CIPHER* Algorithm() {
  static const EVP_CIPHER* const algorithm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return algorithm;
}

Context NewContext() {
  Context context(EVP_CIPHER_CTX_new());
  if (context == nullptr || Algorithm() == nullptr) std::abort();
  return context;
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* Bytes(std::string& text, std::size_t at) {
  return reinterpret_cast<unsigned char*>(&text[at]);
}

}  // namespace

std::string RandomNonces(std::size_t boxes) {
  std::string nonces(boxes * kBoxNonceBytes, '\0');
  if (RAND_bytes(Bytes(nonces, 0), static_cast<int>(nonces.size())) != 1) std::abort();
  return nonces;
}

void AppendBox(const Secret& key, std::string_view nonce, std::string_view associated,
               std::string_view plaintext, std::string& out) {
  if (nonce.size() != kBoxNonceBytes) std::abort();
  out.append(nonce);
  const std::size_t text_at = out.size();
  const std::size_t tag_at = text_at + plaintext.size();
  out.resize(tag_at + kBoxTagBytes);
  const Context context = NewContext();
  int size = 0;
  if (EVP_EncryptInit_ex2(context.get(), Algorithm(), key.data(), Bytes(nonce), nullptr) != 1 ||
      EVP_EncryptUpdate(context.get(), nullptr, &size, Bytes(associated),
                        static_cast<int>(associated.size())) != 1 ||
      EVP_EncryptUpdate(context.get(), Bytes(out, text_at), &size, Bytes(plaintext),
                        static_cast<int>(plaintext.size())) != 1 ||
      EVP_EncryptFinal_ex(context.get(), Bytes(out, tag_at), &size) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kBoxTagBytes),
                          Bytes(out, tag_at)) != 1) {
    std::abort();
  }
}

std::optional<std::string> OpenBox(const Secret& key, std::string_view associated,
                                   std::string_view box) {
  if (box.size() < kBoxBytes) return std::nullopt;
  const std::string_view nonce = box.substr(0, kBoxNonceBytes);
  const std::string_view sealed = box.substr(kBoxNonceBytes, box.size() - kBoxBytes);
  std::string tag(box.substr(box.size() - kBoxTagBytes));
  // One byte more, so that there is a place to write to when there is no text.
  std::string plaintext(sealed.size() + 1, '\0');
  const Context context = NewContext();
  int size = 0;
  const bool opened =
      EVP_DecryptInit_ex2(context.get(), Algorithm(), key.data(), Bytes(nonce), nullptr) == 1 &&
      EVP_DecryptUpdate(context.get(), nullptr, &size, Bytes(associated),
                        static_cast<int>(associated.size())) == 1 &&
      EVP_DecryptUpdate(context.get(), Bytes(plaintext, 0), &size, Bytes(sealed),
                        static_cast<int>(sealed.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kBoxTagBytes),
                          Bytes(tag, 0)) == 1 &&
      EVP_DecryptFinal_ex(context.get(), Bytes(plaintext, sealed.size()), &size) == 1;
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
