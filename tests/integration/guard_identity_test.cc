// The owner of a call's key, by real certificates.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "grpc_idempotency/server_guard/scope.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"
#include "tests/support/certificate_authority.h"

namespace idempotency::internal::testing {
namespace {

class GuardAndIdentity : public GuardFixture {
 protected:
  using Identity = CertificateAuthority::Identity;

  ProbeServer& ServeTls(grpc_ssl_client_certificate_request_type request) {
    const Identity own = authority_.Issue("server", "IP:127.0.0.1");
    grpc::SslServerCredentialsOptions tls(request);
    tls.pem_root_certs = authority_.root();
    tls.pem_key_cert_pairs.push_back({own.key, own.certificate});
    return Serve(Counting(), [&](ProbeServer::Options& options) {
      options.credentials = grpc::SslServerCredentials(tls);
      options.guard.scope = PeerIdentityScope();
    });
  }

  ProbeClient ClientAs(const std::optional<Identity>& identity) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = authority_.root();
    if (identity.has_value()) {
      tls.pem_private_key = identity->key;
      tls.pem_cert_chain = identity->certificate;
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    return ProbeClient(
        grpc::CreateCustomChannel(server_->address(), grpc::SslCredentials(tls), arguments));
  }

  CertificateAuthority authority_;
};

TEST_P(GuardAndIdentity, ClientsOfTwoIdentitiesDoNotSeeEachOthersRecords) {
  ServeTls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  const ProbeClient alice = ClientAs(authority_.Issue("alice", "DNS:alice.example"));
  const ProbeClient bob = ClientAs(authority_.Issue("bob", "DNS:bob.example"));
  const Outcome of_alice = alice.Act("same");
  ASSERT_TRUE(of_alice.status.ok()) << of_alice.status.error_message();
  EXPECT_EQ(of_alice.reply().total(), 1);
  // Not even that the key is in use: another request under it is no misuse.
  const Outcome of_bob = bob.Act("same", 7);
  ASSERT_TRUE(of_bob.status.ok()) << of_bob.status.error_message();
  EXPECT_EQ(of_bob.reply().total(), 2);
  EXPECT_EQ(alice.Act("same").body, of_alice.body);
  EXPECT_EQ(bob.Act("same", 7).body, of_bob.body);
  EXPECT_EQ(Get(of_alice.Trailer("idempotency-record")).record_key().scope(), "alice.example");
  EXPECT_EQ(Get(of_bob.Trailer("idempotency-record")).record_key().scope(), "bob.example");
  EXPECT_EQ(runs_, 2);
}

TEST_P(GuardAndIdentity, RenewedCertificateIsTheSameIdentity) {
  ServeTls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  const Outcome before =
      ClientAs(authority_.Issue("alice", "DNS:alice.example,URI:spiffe://example/alice"))
          .Act("renewed");
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  // Another key, another common name, the names in another order.
  const Outcome after =
      ClientAs(authority_.Issue("alice-2", "URI:spiffe://example/alice,DNS:alice.example"))
          .Act("renewed");
  EXPECT_TRUE(after.replayed());
  EXPECT_EQ(after.body, before.body);
}

TEST_P(GuardAndIdentity, CommonNameCountsWithoutAlternativeNames) {
  ServeTls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  const Outcome outcome = ClientAs(authority_.Issue("carol")).Act("named");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(Get(outcome.Trailer("idempotency-record")).record_key().scope(), "carol");
}

TEST_P(GuardAndIdentity, NameWithASeparatorIsNotTwoNames) {
  ServeTls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  const ProbeClient both = ClientAs(authority_.Issue("both", "DNS:a.example,DNS:b.example"));
  const ProbeClient one = ClientAs(authority_.Issue("a.example,b.example"));
  EXPECT_EQ(both.Act("separated").reply().total(), 1);
  EXPECT_EQ(one.Act("separated").reply().total(), 2);
}

TEST_P(GuardAndIdentity, ClientWithoutACertificateIsRefusedWhereNoneIsRequired) {
  ServeTls(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  const Outcome nobody = ClientAs(std::nullopt).Act("anonymous");
  EXPECT_EQ(nobody.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(nobody.status.error_message(), "this method needs a client certificate");
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(ClientAs(authority_.Issue("dave")).Act("anonymous").status.ok());
  EXPECT_EQ(runs_, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardAndIdentity, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
