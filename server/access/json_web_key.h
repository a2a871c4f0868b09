#ifndef IDEMPOTENCY_SERVER_ACCESS_JSON_WEB_KEY_H_
#define IDEMPOTENCY_SERVER_ACCESS_JSON_WEB_KEY_H_

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// A public key that verifies the signatures of tokens with one algorithm (RFC 7517, RFC 7518).
// The key determines the algorithm, never the token (RFC 8725, 3.1). Thread-safe.
class JsonWebKey {
 public:
  enum class Algorithm { kRs256, kEs256, kEdDsa };

  JsonWebKey(std::string id, Algorithm algorithm, std::shared_ptr<EVP_PKEY> key)
      : id_(std::move(id)), algorithm_(algorithm), key_(std::move(key)) {}

  // `kid`; may be empty.
  const std::string& id() const { return id_; }
  // The `alg` of tokens that it verifies.
  absl::string_view algorithm_name() const;
  // True if `signature`, in the form of RFC 7518, is this key's signature of `text`.
  bool Verifies(absl::string_view text, absl::string_view signature) const;

 private:
  std::string id_;
  Algorithm algorithm_;
  std::shared_ptr<EVP_PKEY> key_;
};

// The keys of a JSON Web Key Set that verify signatures: RSA of 2048 bits and more (RS256), EC
// P-256 (ES256) and Ed25519 (EdDSA). Keys of other types, uses and algorithms are left out, as
// RFC 7517, 5 requires. INVALID_ARGUMENT if the text is not a key set, has more than
// limits::kMaxJsonWebKeys,
// a key is malformed, or none is left.
absl::StatusOr<std::vector<JsonWebKey>> ParseJsonWebKeySet(absl::string_view json);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_JSON_WEB_KEY_H_
