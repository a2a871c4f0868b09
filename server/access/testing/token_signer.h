#ifndef IDEMPOTENCY_SERVER_ACCESS_TESTING_TOKEN_SIGNER_H_
#define IDEMPOTENCY_SERVER_ACCESS_TESTING_TOKEN_SIGNER_H_

#include <openssl/evp.h>

#include <memory>
#include <string>

namespace idempotency::internal::testing {

// An issuer's private key, made at random, that signs JSON Web Tokens. Thread-compatible.
class TokenSigner {
 public:
  enum class Kind { kRsa, kWeakRsa, kEc, kEd25519 };

  explicit TokenSigner(Kind kind, std::string key_id = "key-1");

  // The public key as an entry of a JSON Web Key Set.
  std::string PublicKey() const;
  // A set with this key alone.
  std::string KeySet() const { return "{\"keys\":[" + PublicKey() + "]}"; }

  // A token with these claims, in JSON.
  std::string Sign(const std::string& claims) const;
  // With a header of the test's choice.
  std::string SignWithHeader(const std::string& header, const std::string& claims) const;

 private:
  std::string Signature(const std::string& text) const;

  const Kind kind_;
  const std::string key_id_;
  const std::shared_ptr<EVP_PKEY> key_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_SERVER_ACCESS_TESTING_TOKEN_SIGNER_H_
