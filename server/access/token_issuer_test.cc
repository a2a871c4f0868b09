#include "server/access/token_issuer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/sha256.h"
#include "server/access/testing/token_signer.h"
#include "server/limits.h"

namespace idempotency::internal {
namespace {

using testing::TokenSigner;

constexpr char kIssuer[] = "https://issuer.example";
constexpr char kAudience[] = "idempotencyd";
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

std::string Claims(const std::string& more = "", const std::string& expires = "1700000600") {
  return absl::StrCat(R"({"iss":"https://issuer.example","aud":"idempotencyd","sub":"payments",)",
                      R"("exp":)", expires, more, "}");
}

TokenIssuer IssuerOf(const std::string& key_set) {
  auto keys = ParseJsonWebKeySet(key_set);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return TokenIssuer(kIssuer, kAudience, *std::move(keys));
}

class EveryAlgorithm : public ::testing::TestWithParam<TokenSigner::Kind> {};

TEST_P(EveryAlgorithm, AValidTokenHasItsSubjectAndEnd) {
  const TokenSigner signer(GetParam());
  const auto verified = IssuerOf(signer.KeySet()).Verify(signer.Sign(Claims()), kNow);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->issuer, kIssuer);
  EXPECT_EQ(verified->subject, "payments");
  EXPECT_EQ(verified->valid_until, kNow + absl::Minutes(10) + kTokenClockTolerance);
}

TEST_P(EveryAlgorithm, NoChangedByteIsAccepted) {
  const TokenSigner signer(GetParam());
  const TokenIssuer issuer = IssuerOf(signer.KeySet());
  const std::string token = signer.Sign(Claims());
  // The last character of a part may encode bits that its bytes do not have.
  for (std::size_t i = 0; i + 1 < token.size(); ++i) {
    if (token[i] == '.' || token[i + 1] == '.') continue;
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(issuer.Verify(changed, kNow).ok()) << i;
  }
  for (std::size_t length = 0; length + 2 < token.size(); ++length) {
    EXPECT_FALSE(issuer.Verify(token.substr(0, length), kNow).ok()) << length;
  }
}

TEST_P(EveryAlgorithm, TheKeyOfAnotherIsRefused) {
  const TokenSigner signer(GetParam());
  const TokenSigner other(GetParam());
  EXPECT_FALSE(IssuerOf(other.KeySet()).Verify(signer.Sign(Claims()), kNow).ok());
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm,
                         ::testing::Values(TokenSigner::Kind::kRsa, TokenSigner::Kind::kEc,
                                           TokenSigner::Kind::kEd25519));

class TokenIssuerTest : public ::testing::Test {
 protected:
  absl::Status Verify(const std::string& claims) const {
    return issuer_.Verify(signer_.Sign(claims), kNow).status();
  }

  const TokenSigner signer_{TokenSigner::Kind::kEc};
  const TokenIssuer issuer_ = IssuerOf(signer_.KeySet());
};

TEST_F(TokenIssuerTest, ClaimsDecide) {
  const std::vector<std::string> refused = {
      "{}",
      "[]",
      "no JSON",
      R"({"aud":"idempotencyd","sub":"payments","exp":1700000600})",
      R"({"iss":"https://other","aud":"idempotencyd","sub":"payments","exp":1700000600})",
      R"({"iss":"https://issuer.example","sub":"payments","exp":1700000600})",
      R"({"iss":"https://issuer.example","aud":"other","sub":"payments","exp":1700000600})",
      R"({"iss":"https://issuer.example","aud":["a","b"],"sub":"payments","exp":1700000600})",
      R"({"iss":"https://issuer.example","aud":"idempotencyd","exp":1700000600})",
      R"({"iss":"https://issuer.example","aud":"idempotencyd","sub":"","exp":1700000600})",
      R"({"iss":"https://issuer.example","aud":"idempotencyd","sub":"payments"})",
      Claims("", "\"1700000600\""),
      Claims("", "\"NaN\""),
      // Over by the tolerance.
      Claims("", "1699999970"),
      Claims(R"(,"nbf":1700000031)"),
      Claims(R"(,"nbf":"soon")"),
  };
  for (const std::string& claims : refused) {
    EXPECT_EQ(Verify(claims).code(), absl::StatusCode::kUnauthenticated) << claims;
  }
  const std::vector<std::string> accepted = {
      Claims(),
      Claims("", "1699999971"),
      Claims(R"(,"nbf":1700000030)"),
      R"({"iss":"https://issuer.example","aud":["a","idempotencyd"],"sub":"x","exp":1700000600})",
  };
  for (const std::string& claims : accepted) EXPECT_TRUE(Verify(claims).ok()) << claims;
}

// RFC 8725, 2.1 and 3.1: the token does not choose its algorithm.
TEST_F(TokenIssuerTest, TheHeaderChoosesNoOtherAlgorithm) {
  for (const std::string& header :
       {std::string(R"({"alg":"none"})"), std::string(R"({"alg":"HS256","kid":"key-1"})"),
        std::string(R"({"alg":"RS256","kid":"key-1"})"), std::string(R"({"kid":"key-1"})"),
        std::string(R"({"alg":"ES256","kid":"key-2"})"),
        std::string(R"({"alg":"ES256","kid":"key-1","crit":["exp"]})"), std::string("[]")}) {
    EXPECT_FALSE(issuer_.Verify(signer_.SignWithHeader(header, Claims()), kNow).ok()) << header;
  }
  EXPECT_TRUE(issuer_.Verify(signer_.SignWithHeader(R"({"alg":"ES256"})", Claims()), kNow).ok());
}

TEST_F(TokenIssuerTest, ATokenWithoutASignatureIsRefused) {
  const std::vector<std::string> parts = absl::StrSplit(signer_.Sign(Claims()), '.');
  const std::string none = absl::WebSafeBase64Escape(R"({"alg":"none"})");
  for (const std::string& token :
       {absl::StrCat(parts[0], ".", parts[1]), absl::StrCat(parts[0], ".", parts[1], "."),
        absl::StrCat(none, ".", parts[1], "."), std::string(".."), std::string("a.b.c.d")}) {
    EXPECT_FALSE(issuer_.Verify(token, kNow).ok()) << token;
  }
}

// A key that everybody knows, used as the secret of an HMAC.
TEST_F(TokenIssuerTest, AnHmacWithThePublicKeyIsRefused) {
  const std::string text = absl::StrCat(absl::WebSafeBase64Escape(R"({"alg":"HS256"})"), ".",
                                        absl::WebSafeBase64Escape(Claims()));
  const Sha256Digest mac = HmacSha256(signer_.PublicKey(), text);
  const std::string signature(reinterpret_cast<const char*>(mac.data()), mac.size());
  EXPECT_FALSE(
      issuer_.Verify(absl::StrCat(text, ".", absl::WebSafeBase64Escape(signature)), kNow).ok());
}

TEST_F(TokenIssuerTest, ErrorsDoNotContainTheToken) {
  const std::string token = signer_.Sign(R"({"sub":"canary"})");
  const absl::Status refused = issuer_.Verify(token, kNow).status();
  EXPECT_EQ(refused.message().find("canary"), absl::string_view::npos);
  EXPECT_EQ(refused.message().find(token.substr(0, 8)), absl::string_view::npos);
}

TEST(JsonWebKeyTest, DuringARotationBothKeysVerify) {
  const TokenSigner old_key(TokenSigner::Kind::kRsa, "old");
  const TokenSigner new_key(TokenSigner::Kind::kEc, "new");
  const TokenIssuer issuer =
      IssuerOf(absl::StrCat("{\"keys\":[", old_key.PublicKey(), ",", new_key.PublicKey(), "]}"));
  EXPECT_TRUE(issuer.Verify(old_key.Sign(Claims()), kNow).ok());
  EXPECT_TRUE(issuer.Verify(new_key.Sign(Claims()), kNow).ok());
}

// Otherwise a token would be verified with each key.
TEST(JsonWebKeyTest, OfSeveralKeysTheTokenNamesOne) {
  const TokenSigner first(TokenSigner::Kind::kEc, "first");
  const TokenSigner second(TokenSigner::Kind::kEc, "second");
  const TokenIssuer issuer =
      IssuerOf(absl::StrCat("{\"keys\":[", first.PublicKey(), ",", second.PublicKey(), "]}"));
  EXPECT_TRUE(issuer.Verify(first.Sign(Claims()), kNow).ok());
  EXPECT_TRUE(issuer.Verify(second.Sign(Claims()), kNow).ok());
  EXPECT_FALSE(issuer.Verify(first.SignWithHeader(R"({"alg":"ES256"})", Claims()), kNow).ok());
}

TEST_F(TokenIssuerTest, ADeepHeaderIsRefused) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string header = "{\"alg\":\"ES256\",\"x\":";
    for (int i = 0; i < 4000; ++i) header += open;
    EXPECT_FALSE(issuer_.Verify(signer_.SignWithHeader(header, Claims()), kNow).ok());
  }
}

TEST(JsonWebKeyTest, ForeignKeysOfASetAreLeftOut) {
  const TokenSigner signer(TokenSigner::Kind::kEd25519);
  for (const std::string& other :
       {std::string(R"({"kty":"oct","k":"c2VjcmV0"})"),
        std::string(R"({"kty":"EC","crv":"P-521"})"), std::string(R"({"kty":"RSA","use":"enc"})"),
        std::string(R"({"kty":"RSA","alg":"PS256"})"), std::string("{}")}) {
    const auto keys =
        ParseJsonWebKeySet(absl::StrCat("{\"keys\":[", other, ",", signer.PublicKey(), "]}"));
    ASSERT_TRUE(keys.ok()) << other << keys.status();
    EXPECT_EQ(keys->size(), 1u) << other;
  }
}

TEST(JsonWebKeyTest, FaultsOfASet) {
  const std::string weak = TokenSigner(TokenSigner::Kind::kWeakRsa).KeySet();
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(R"({"keys":{}})"), std::string(R"({"keys":[]})"),
        std::string(R"({"keys":[{"kty":"oct","k":"c2VjcmV0"}]})"),
        std::string(R"({"keys":[{"kty":"RSA","n":"!","e":"AQAB"}]})"),
        std::string(R"({"keys":[{"kty":"RSA"}]})"),
        std::string(R"({"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]})"),
        // Not on the curve.
        absl::StrCat(R"({"keys":[{"kty":"EC","crv":"P-256","x":")",
                     absl::WebSafeBase64Escape(std::string(32, 'x')), R"(","y":")",
                     absl::WebSafeBase64Escape(std::string(32, 'y')), R"("}]})"),
        weak}) {
    EXPECT_FALSE(ParseJsonWebKeySet(text).ok()) << text;
  }
  std::string many = TokenSigner(TokenSigner::Kind::kEd25519).PublicKey();
  const std::string one = many;
  for (std::size_t i = 0; i < limits::kMaxJsonWebKeys; ++i) absl::StrAppend(&many, ",", one);
  EXPECT_FALSE(ParseJsonWebKeySet("{\"keys\":[" + many + "]}").ok());
}

}  // namespace
}  // namespace idempotency::internal
