#include "grpc_idempotency/server_guard/scope.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "testdata/till.grpc.pb.h"
#include "tests/support/certificate_authority.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;

// Answers with the scope of its caller.
class ScopeTill final : public Till::Service {
 public:
  explicit ScopeTill(ScopeFunction function) : function_(std::move(function)) {}

  grpc::Status Charge(grpc::ServerContext* context, const ChargeRequest*,
                      ChargeReply* reply) override {
    const absl::StatusOr<std::string> scope = function_(*context);
    if (!scope.ok()) {
      return {static_cast<grpc::StatusCode>(scope.status().code()),
              std::string(scope.status().message())};
    }
    reply->set_charge_id(*scope);
    return grpc::Status::OK;
  }

 private:
  const ScopeFunction function_;
};

grpc::Status ScopeOver(const std::shared_ptr<grpc::ServerCredentials>& server_credentials,
                       const std::shared_ptr<grpc::ChannelCredentials>& client_credentials,
                       std::string& scope, ScopeFunction function = PeerIdentityScope()) {
  ScopeTill till(std::move(function));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", server_credentials, &port);
  builder.RegisterService(&till);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub =
      Till::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), client_credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  ChargeReply reply;
  const grpc::Status status = stub->Charge(&context, ChargeRequest(), &reply);
  scope = reply.charge_id();
  server->Shutdown();
  return status;
}

TEST(PeerIdentityScopeTest, ATransportWithoutPeerIdentitiesIsNoIdentity) {
  std::string scope;
  EXPECT_EQ(ScopeOver(grpc::experimental::LocalServerCredentials(LOCAL_TCP),
                      grpc::experimental::LocalCredentials(LOCAL_TCP), scope)
                .error_code(),
            grpc::StatusCode::UNAUTHENTICATED)
      << "scope " << scope;
}

// The scope of a client whose certificate has these names, or the message of the refusal.
std::string ScopeOf(testing::CertificateAuthority& authority, const std::string& names,
                    ScopeFunction function) {
  const auto own = authority.Issue("till", "IP:127.0.0.1");
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = authority.root();
  server.pem_key_cert_pairs.push_back({own.key, own.certificate});
  const auto client = authority.Issue("worker", names);
  std::string scope;
  const grpc::Status status =
      ScopeOver(grpc::SslServerCredentials(server),
                grpc::SslCredentials({authority.root(), client.key, client.certificate}), scope,
                std::move(function));
  return status.ok() ? scope : status.error_message();
}

// Replicas of one service, each with the name of its host: what one began, another one finishes.
TEST(PeerUriScopeTest, OtherNamesOfTheCertificateDoNotCount) {
  testing::CertificateAuthority authority;
  constexpr char kService[] = "spiffe://example.org/orders";
  for (const char* const names :
       {"DNS:host-a,URI:spiffe://example.org/orders", "URI:spiffe://example.org/orders,DNS:host-b",
        "URI:spiffe://example.org/orders", "URI:spiffe://example.org/orders,URI:spiffe://other"}) {
    EXPECT_EQ(ScopeOf(authority, names, PeerUriScope()), kService) << names;
  }
  EXPECT_NE(ScopeOf(authority, "URI:spiffe://example.org/orders,DNS:host-a", PeerIdentityScope()),
            kService);
  // As the external processor escapes it.
  EXPECT_EQ(ScopeOf(authority, "URI:spiffe://example.org/a\\\\b", PeerUriScope()),
            "spiffe://example.org/a\\\\b");
}

TEST(PeerUriScopeTest, APeerWithoutAUriHasNone) {
  testing::CertificateAuthority authority;
  EXPECT_EQ(ScopeOf(authority, "DNS:host-a", PeerUriScope()),
            "the caller's certificate has no subject alternative name of type URI");
  EXPECT_EQ(ScopeOf(authority, "", PeerUriScope()),
            "the caller's certificate has no subject alternative name of type URI");
  std::string scope;
  EXPECT_EQ(ScopeOver(grpc::experimental::LocalServerCredentials(LOCAL_TCP),
                      grpc::experimental::LocalCredentials(LOCAL_TCP), scope, PeerUriScope())
                .error_message(),
            "this method needs a client certificate");
}

// A frontend calls for its users, who may choose equal keys.
TEST(CombinedScopeTest, UsersBehindOneCertificateHaveTheirOwnRecords) {
  testing::CertificateAuthority authority;
  GuardOptions options;
  options.name_space = "tills";
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  options.scope = CombinedScope({PeerUriScope(), MetadataScope("x-user")});
  const auto guard =
      ServerGuard::Create(std::make_unique<FakeConnection>(), std::move(options)).value();
  int runs = 0;
  ScopeTill till([&](const grpc::ServerContextBase&) -> absl::StatusOr<std::string> {
    return absl::StrCat("run ", ++runs);
  });
  const auto own = authority.Issue("till", "IP:127.0.0.1");
  grpc::SslServerCredentialsOptions credentials(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  credentials.pem_root_certs = authority.root();
  credentials.pem_key_cert_pairs.push_back({own.key, own.certificate});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(credentials), &port);
  ASSERT_TRUE(guard->Protect<Till>(builder, &till).ok());
  ASSERT_TRUE(guard->Install(builder).ok());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto frontend = authority.Issue("frontend", "URI:spiffe://example.org/frontend");
  const auto stub = Till::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port),
      grpc::SslCredentials({authority.root(), frontend.key, frontend.certificate})));
  const auto charge = [&](const std::string& user) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    context.AddMetadata(std::string(kKeyMetadata), "order-1");
    if (!user.empty()) context.AddMetadata("x-user", user);
    ChargeReply reply;
    const grpc::Status status = stub->Charge(&context, ChargeRequest(), &reply);
    return status.ok() ? reply.charge_id() : status.error_message();
  };
  EXPECT_EQ(charge("alice"), "run 1");
  EXPECT_EQ(charge("bob"), "run 2");
  EXPECT_EQ(charge("alice"), "run 1");
  EXPECT_EQ(charge(""), "this method needs exactly one metadata entry 'x-user'");
  server->Shutdown();
}

TEST(CombinedScopeTest, APartThatWouldBeRefusedAloneRefusesTheCall) {
  grpc::ServerContext context;
  EXPECT_FALSE(CombinedScope({SharedScope("a"), SharedScope("")})(context).ok());
  EXPECT_FALSE(CombinedScope({SharedScope(std::string(limits::kMaxScopeBytes + 1, 'a')),
                              SharedScope("b")})(context)
                   .ok());
  EXPECT_EQ(CombinedScope({SharedScope("a"), SharedScope("b,c")})(context).value(), "a,b\\,c");
}

TEST(PeerIdentityScopeTest, APeerWithoutTlsHasNone) {
  std::string scope;
  EXPECT_EQ(ScopeOver(grpc::InsecureServerCredentials(), grpc::InsecureChannelCredentials(), scope)
                .error_code(),
            grpc::StatusCode::UNAUTHENTICATED)
      << "scope " << scope;
}

}  // namespace
}  // namespace idempotency::internal
