// Tokens of callers without an identity, and key sets.
#include <string>
#include <string_view>

#include "server/access/testing/token_signer.h"
#include "server/access/token_issuer.h"
#include "server/limits.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

using testing::TokenSigner;

constexpr char kIssuer[] = "https://issuer.example";
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

const TokenSigner& Signer() {
  static const auto& signer = *new TokenSigner(TokenSigner::Kind::kEd25519);
  return signer;
}

const TokenIssuer& Issuer() {
  static const auto& issuer =
      *new TokenIssuer(kIssuer, "idempotencyd", ParseJsonWebKeySet(Signer().KeySet()).value());
  return issuer;
}

}  // namespace

void AccessTokens(std::string_view bytes) {
  const std::string all(bytes);
  Require(!Issuer().Verify(all, kNow).ok(), "nothing is accepted without the key");

  Input input(bytes);
  const std::string header(input.Line());
  const std::string claims(input.Rest());
  // Signed: what an issuer itself sends.
  const auto signed_claims = Issuer().Verify(Signer().Sign(all), kNow);
  const auto signed_header = Issuer().Verify(Signer().SignWithHeader(header, claims), kNow);
  for (const auto* verified : {&signed_claims, &signed_header}) {
    if (verified->ok()) {
      Require((*verified)->issuer == kIssuer && !(*verified)->subject.empty(), "a subject");
      Require((*verified)->valid_until > kNow, "it is still valid");
    } else {
      Require(verified->status().code() == absl::StatusCode::kUnauthenticated, "a refusal");
    }
  }

  const auto keys = ParseJsonWebKeySet(all);
  if (keys.ok()) {
    Require(!keys->empty() && keys->size() <= limits::kMaxJsonWebKeys, "within the bound");
    for (const JsonWebKey& key : *keys) Require(!key.Verifies("text", all), "no signature");
  }
}

}  // namespace idempotency::internal::fuzz
