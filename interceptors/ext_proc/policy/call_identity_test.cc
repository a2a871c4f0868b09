#include "interceptors/ext_proc/policy/call_identity.h"

#include <string>
#include <vector>

#include "google/protobuf/dynamic_message.h"
#include "gtest/gtest.h"

#include "core/field_memory.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/ext_proc/front/grpc_wire.h"

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

std::string Framed(const google::protobuf::Message& message) {
  std::string body;
  AppendGrpcMessage(message.SerializeAsString(), body);
  return body;
}

// With a dynamic type, as those of descriptor sets are.
class ParsedFieldBytesTest : public ::testing::Test {
 protected:
  ParsedFieldBytesTest() {
    route_.request_type = factory_.GetPrototype(v1::SessionRequest::descriptor());
  }

  absl::StatusOr<std::size_t> BytesOf(const v1::SessionRequest& request,
                                      std::size_t most = 1'000'000'000) const {
    return ParsedFieldBytes(route_, Framed(request), most);
  }
  // By protobuf's own count, which leaves out what the allocator adds.
  std::size_t BytesTakenBy(const v1::SessionRequest& request) const {
    const std::string body = Framed(request);
    return ReadGrpcCall(route_, body)->message->SpaceUsedLong();
  }

  google::protobuf::DynamicMessageFactory factory_;
  GuardedRoute route_;
};

TEST_F(ParsedFieldBytesTest, IsAboutWhatIsTaken) {
  std::vector<v1::SessionRequest> requests(4);
  v1::Reply& reply = *requests[1].add_operations()->mutable_complete()->mutable_reply();
  v1::ReserveRequest& reserve = *requests[2].add_operations()->mutable_reserve();
  auto& unknown = *requests[3].GetReflection()->MutableUnknownFields(&requests[3]);
  for (int i = 0; i < 10'000; ++i) {
    requests[0].add_operations();
    reply.add_stream("a text that has memory of its own");
    (*reserve.mutable_labels())[std::to_string(i)] = "label";
    unknown.AddVarint(99, 1);
  }
  for (const v1::SessionRequest& request : requests) {
    const std::size_t estimate = *BytesOf(request) + request.ByteSizeLong();
    const std::size_t taken = BytesTakenBy(request);
    EXPECT_GE(estimate + 1000, taken) << request.ByteSizeLong();
    EXPECT_LE(estimate, 4 * taken) << request.ByteSizeLong();
  }
}

TEST_F(ParsedFieldBytesTest, MoreThanTheBoundIsRefused) {
  v1::SessionRequest request;
  for (int i = 0; i < 1000; ++i) request.add_operations();
  const std::size_t bytes = *BytesOf(request);
  EXPECT_GT(bytes, 1000 * kFieldBytes);
  EXPECT_TRUE(BytesOf(request, bytes).ok());
  EXPECT_EQ(ReasonOf(BytesOf(request, bytes - 1).status()), Reason::kRequestInvalid);
}

TEST_F(ParsedFieldBytesTest, OfBytesThatAreNotTheMessageIsRefused) {
  std::string body;
  AppendGrpcMessage("\x0f", body);
  EXPECT_EQ(ReasonOf(ParsedFieldBytes(route_, body, 1000).status()), Reason::kRequestInvalid);
  EXPECT_EQ(ReasonOf(ParsedFieldBytes(route_, "x", 1000).status()), Reason::kRequestInvalid);
  // Without a type nothing is parsed.
  EXPECT_EQ(*ParsedFieldBytes(GuardedRoute(), body, 0), 0U);
}

}  // namespace
}  // namespace idempotency::internal
