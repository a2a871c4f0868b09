#include "server/access/testing/token_signer.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal::testing {
namespace {

EVP_PKEY* Generate(TokenSigner::Kind kind) {
  switch (kind) {
    case TokenSigner::Kind::kRsa:
      return EVP_RSA_gen(2048);
    case TokenSigner::Kind::kWeakRsa:
      return EVP_RSA_gen(1024);
    case TokenSigner::Kind::kEc:
      return EVP_EC_gen("P-256");
    case TokenSigner::Kind::kEd25519:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  }
  return nullptr;
}

std::string NumberOf(const EVP_PKEY& key, const char* name) {
  BIGNUM* number = nullptr;
  EVP_PKEY_get_bn_param(&key, name, &number);
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
  BN_bn2bin(number, reinterpret_cast<unsigned char*>(bytes.data()));
  BN_free(number);
  return bytes;
}

// Left-padded to the 32 bytes of P-256.
std::string Padded(const BIGNUM* number) {
  std::string bytes(32, '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), 32);
  return bytes;
}

std::string CoordinateOf(const EVP_PKEY& key, const char* name) {
  BIGNUM* number = nullptr;
  EVP_PKEY_get_bn_param(&key, name, &number);
  std::string bytes = Padded(number);
  BN_free(number);
  return bytes;
}

std::string RawPublicKey(const EVP_PKEY& key) {
  std::array<unsigned char, 32> bytes{};
  std::size_t size = bytes.size();
  EVP_PKEY_get_raw_public_key(&key, bytes.data(), &size);
  return {reinterpret_cast<const char*>(bytes.data()), size};
}

std::string Base64(const std::string& bytes) { return absl::WebSafeBase64Escape(bytes); }

}  // namespace

TokenSigner::TokenSigner(Kind kind, std::string key_id)
    : kind_(kind), key_id_(std::move(key_id)), key_(Generate(kind), &EVP_PKEY_free) {}

std::string TokenSigner::PublicKey() const {
  const std::string id = absl::StrCat("\"kid\":\"", key_id_, "\",\"use\":\"sig\",");
  switch (kind_) {
    case Kind::kRsa:
    case Kind::kWeakRsa:
      return absl::StrCat("{", id, R"("kty":"RSA","n":")",
                          Base64(NumberOf(*key_, OSSL_PKEY_PARAM_RSA_N)), R"(","e":")",
                          Base64(NumberOf(*key_, OSSL_PKEY_PARAM_RSA_E)), "\"}");
    case Kind::kEc:
      return absl::StrCat("{", id, R"("kty":"EC","crv":"P-256","x":")",
                          Base64(CoordinateOf(*key_, OSSL_PKEY_PARAM_EC_PUB_X)), R"(","y":")",
                          Base64(CoordinateOf(*key_, OSSL_PKEY_PARAM_EC_PUB_Y)), "\"}");
    case Kind::kEd25519:
      return absl::StrCat("{", id, R"("kty":"OKP","crv":"Ed25519","x":")",
                          Base64(RawPublicKey(*key_)), "\"}");
  }
  return "";
}

std::string TokenSigner::Sign(const std::string& claims) const {
  const char* const algorithm = kind_ == Kind::kEc        ? "ES256"
                                : kind_ == Kind::kEd25519 ? "EdDSA"
                                                          : "RS256";
  return SignWithHeader(absl::StrCat(R"({"alg":")", algorithm, R"(","kid":")", key_id_, "\"}"),
                        claims);
}

std::string TokenSigner::SignWithHeader(const std::string& header,
                                        const std::string& claims) const {
  const std::string text = absl::StrCat(Base64(header), ".", Base64(claims));
  return absl::StrCat(text, ".", Base64(Signature(text)));
}

std::string TokenSigner::Signature(const std::string& text) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestSignInit(context.get(), nullptr, kind_ == Kind::kEd25519 ? nullptr : EVP_sha256(),
                     nullptr, key_.get());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size());
  std::string signature(size, '\0');
  EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes,
                 text.size());
  signature.resize(size);
  if (kind_ != Kind::kEc) return signature;
  const auto* der = reinterpret_cast<const unsigned char*>(signature.data());
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> parts(
      d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(signature.size())), &ECDSA_SIG_free);
  return Padded(ECDSA_SIG_get0_r(parts.get())) + Padded(ECDSA_SIG_get0_s(parts.get()));
}

}  // namespace idempotency::internal::testing
