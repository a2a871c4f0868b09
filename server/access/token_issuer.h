#ifndef IDEMPOTENCY_SERVER_ACCESS_TOKEN_ISSUER_H_
#define IDEMPOTENCY_SERVER_ACCESS_TOKEN_ISSUER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "server/access/json_web_key.h"

namespace idempotency::internal {

// The claims of a verified token.
struct VerifiedToken {
  // `iss` and `sub`.
  std::string issuer;
  std::string subject;
  // `exp`, with the tolerance for clocks.
  absl::Time valid_until;
};

// Clocks of issuers and of this machine may differ by as much.
inline constexpr absl::Duration kTokenClockTolerance = absl::Seconds(30);

// An issuer of JSON Web Tokens (RFC 7519) and its current keys. Immutable, so thread-safe.
class TokenIssuer {
 public:
  TokenIssuer(std::string issuer, std::string audience, std::vector<JsonWebKey> keys)
      : issuer_(std::move(issuer)), audience_(std::move(audience)), keys_(std::move(keys)) {}

  const std::string& issuer() const { return issuer_; }

  // Verifies a token in compact form by RFC 8725: the algorithm is the key's, `iss` and `aud` are
  // this issuer's, `kid` names the key unless it is the only one, `exp` is required and not over,
  // `nbf` is reached, `sub` is not empty, and no critical header is present. UNAUTHENTICATED states
  // the fault, and never contains the token.
  absl::StatusOr<VerifiedToken> Verify(absl::string_view token, absl::Time now) const;

 private:
  bool IsSigned(absl::string_view header_text, absl::string_view signed_text,
                absl::string_view signature) const;

  std::string issuer_;
  std::string audience_;
  std::vector<JsonWebKey> keys_;
};

// The issuer that a token names, which is not verified: it chooses the one that verifies the token.
// UNAUTHENTICATED if the token cannot be read.
absl::StatusOr<std::string> ClaimedIssuer(absl::string_view token);

// True if the text has the three parts of a token in compact form, as no static token has.
bool LooksLikeJsonWebToken(absl::string_view token);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_TOKEN_ISSUER_H_
