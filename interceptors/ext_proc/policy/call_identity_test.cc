#include "interceptors/ext_proc/policy/call_identity.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using Header = HeaderList::Header;

std::string DigestOf(const std::vector<Header>& more) {
  HttpMessage request;
  request.headers = HeaderList({{":method", "POST"}, {":path", "/v1/payments"}});
  for (const auto& [name, value] : more) request.headers.Add(name, value);
  request.body = "{}";
  return HttpFingerprints(GuardedRoute(), request)[0].digest;
}

std::string DigestAt(const std::string& scheme, const std::string& authority) {
  return DigestOf({{":scheme", scheme}, {":authority", authority}});
}

TEST(CallIdentityTest, AnotherHostIsAnotherRequestOfHttp) {
  EXPECT_NE(DigestAt("https", "a.example"), DigestAt("https", "b.example"));
  EXPECT_NE(DigestAt("https", "a.example"), DigestAt("https", "a.example:8443"));
  EXPECT_NE(DigestAt("https", "a.example"), DigestOf({}));
}

TEST(CallIdentityTest, SpellingsOfOneHostAreOneRequest) {
  EXPECT_EQ(DigestAt("https", "a.example"), DigestAt("https", "A.Example:443"));
  EXPECT_EQ(DigestAt("http", "a.example"), DigestAt("http", "a.example:80"));
  EXPECT_EQ(DigestAt("https", "[2001:db8::1]"), DigestAt("https", "[2001:DB8::1]:443"));
  // The default port of the other scheme is another host's.
  EXPECT_NE(DigestAt("https", "a.example"), DigestAt("https", "a.example:80"));
  EXPECT_NE(DigestAt("http", "a.example"), DigestAt("http", "a.example:443"));
}

TEST(CallIdentityTest, AnotherContentEncodingIsAnotherRequestOfHttp) {
  const std::string plain = DigestOf({});
  const std::string gzip = DigestOf({{"content-encoding", "gzip"}});
  EXPECT_NE(gzip, plain);
  EXPECT_NE(gzip, DigestOf({{"content-encoding", "br"}}));
  EXPECT_NE(gzip, DigestOf({{"content-encoding", "gzip"}, {"content-encoding", "br"}}));
  EXPECT_EQ(gzip, DigestOf({{"content-encoding", "GZip"}}));
  EXPECT_EQ(plain, DigestOf({{"content-encoding", "identity"}}));
  EXPECT_EQ(DigestOf({{"content-encoding", "gzip, br"}}),
            DigestOf({{"content-encoding", "gzip"}, {"content-encoding", "br"}}));
}

TEST(CallIdentityTest, AMalformedBinaryEntryIsRefused) {
  GuardedRoute route;
  route.policy.fingerprint_metadata = {"x-tenant-bin"};
  const GrpcCall call;
  const auto fingerprints = [&](const std::string& value) {
    return GrpcFingerprints(route, "/p.S/M", HeaderList({{"x-tenant-bin", value}}), call);
  };
  ASSERT_TRUE(fingerprints("").ok());
  ASSERT_TRUE(fingerprints("AAH/").ok());
  EXPECT_NE((*fingerprints("AAH/"))[0].digest, (*fingerprints(""))[0].digest);
  EXPECT_EQ(ReasonOf(fingerprints("AAH/,%").status()), Reason::kRequestInvalid);
}

}  // namespace
}  // namespace idempotency::internal
