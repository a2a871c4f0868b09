#include "server/access/access_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "server/access/access_control.h"
#include "server/access/testing/token_signer.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

RecordKey KeyIn(const std::string& name_space, const std::string& scope = "scope") {
  return {name_space, scope, "/payments.v1.Payments/Charge", "order-1"};
}

Permissions Of(std::initializer_list<Permission> all) {
  Permissions permissions;
  for (const Permission permission : all) permissions.Add(permission);
  return permissions;
}

AccessRules SomeRules() {
  AccessRules rules;
  rules.identities.resize(5);
  rules.identities[0].name = "payments";
  rules.identities[0].uris = {"spiffe://example/payments"};
  rules.identities[0].token_digests = {Sha256("payments-token"), Sha256("payments-next")};
  rules.identities[1].name = "support";
  rules.identities[1].dns_names = {"support.example"};
  rules.identities[1].subjects = {"CN=support"};
  rules.identities[2].name = "operators";
  rules.identities[2].token_digests = {Sha256("operators-token")};
  rules.identities[3].name = "anyone";
  rules.identities[3].any_certificate = true;
  rules.identities[4].name = "machine";
  rules.identities[4].local = true;
  rules.rules = {{"payments", {"payments"}, Of({Permission::kWrite, Permission::kRead})},
                 {"support", {"payments", "orders"}, Of({Permission::kRead})},
                 {"support", {"orders"}, Of({Permission::kReadContent})},
                 {"operators", {std::string(kEveryNamespace)}, Permissions::All()}};
  rules.peer_scoped = {"payments"};
  return rules;
}

Credentials WithUri(const std::string& uri) {
  Credentials credentials;
  credentials.certificate = true;
  credentials.uris = {uri};
  return credentials;
}
Credentials WithToken(const std::string& token) {
  Credentials credentials;
  credentials.token = token;
  return credentials;
}

// The name of the identity, or "".
std::string NameOf(const AccessPolicy& policy, const Credentials& credentials) {
  const auto identified = policy.Identify(credentials, kNow);
  if (!identified.ok()) {
    EXPECT_TRUE(absl::IsUnauthenticated(identified.status()));
    return "";
  }
  return policy.NameOf(identified->identity);
}

TEST(AccessPolicyTest, CredentialsIdentify) {
  const AccessPolicy policy(SomeRules());
  EXPECT_EQ(NameOf(policy, WithUri("spiffe://example/payments")), "payments");
  EXPECT_EQ(NameOf(policy, WithToken("payments-token")), "payments");
  EXPECT_EQ(NameOf(policy, WithToken("payments-next")), "payments");
  EXPECT_EQ(NameOf(policy, WithToken("operators-token")), "operators");
  Credentials dns;
  dns.certificate = true;
  dns.dns_names = {"unrelated.example", "support.example"};
  EXPECT_EQ(NameOf(policy, dns), "support");
  Credentials subject;
  subject.certificate = true;
  subject.subject = "CN=support";
  EXPECT_EQ(NameOf(policy, subject), "support");
  EXPECT_EQ(NameOf(policy, WithUri("spiffe://example/unknown")), "anyone");
  Credentials local;
  local.local = true;
  EXPECT_EQ(NameOf(policy, local), "machine");
}

TEST(AccessPolicyTest, NamesAreComparedWhole) {
  AccessRules rules = SomeRules();
  rules.identities[3].any_certificate = false;
  const AccessPolicy policy(rules);
  for (const char* uri : {"spiffe://example/payments/", "spiffe://example/payment",
                          "SPIFFE://example/payments", "support.example", ""}) {
    EXPECT_EQ(NameOf(policy, WithUri(uri)), "") << uri;
  }
  for (const char* token : {"payments-toke", "payments-token ", "PAYMENTS-TOKEN", "a.b.c"}) {
    EXPECT_EQ(NameOf(policy, WithToken(token)), "") << token;
  }
}

TEST(AccessPolicyTest, AWrongTokenIsRefusedBesideAValidCertificate) {
  const AccessPolicy policy(SomeRules());
  Credentials both = WithUri("spiffe://example/payments");
  both.token = "wrong";
  EXPECT_EQ(NameOf(policy, both), "");
  both.token = "operators-token";
  EXPECT_EQ(NameOf(policy, both), "operators");
  both.token = "";
  both.malformed = true;
  EXPECT_EQ(NameOf(policy, both), "");
  // A local connection that presents something is not anonymous.
  Credentials local = WithToken("wrong");
  local.local = true;
  EXPECT_EQ(NameOf(policy, local), "");
}

TEST(AccessPolicyTest, ACertificateOfTwoIdentitiesIsRefused) {
  const AccessPolicy policy(SomeRules());
  Credentials both = WithUri("spiffe://example/payments");
  both.dns_names = {"support.example"};
  EXPECT_EQ(NameOf(policy, both), "");
}

TEST(AccessPolicyTest, AnonymousCallersPresentNothing) {
  AccessRules rules = SomeRules();
  rules.identities.resize(6);
  rules.identities[5].name = "anonymous";
  rules.identities[5].anonymous = true;
  rules.identities[3].any_certificate = false;
  const AccessPolicy policy(rules);
  EXPECT_EQ(NameOf(policy, Credentials()), "anonymous");
  Credentials local;
  local.local = true;
  EXPECT_EQ(NameOf(policy, local), "machine");
  EXPECT_EQ(NameOf(policy, WithToken("wrong")), "");
  EXPECT_EQ(NameOf(policy, WithUri("spiffe://example/unknown")), "");
}

// An Envoy on the same machine adds x-forwarded-for to its own calls.
TEST(AccessPolicyTest, ALocalCallWithTheHeaderOfAProxyIsRefusedWithItsName) {
  AccessRules rules = SomeRules();
  Credentials forwarded;
  forwarded.SetLocal("x-forwarded-for");
  const auto refused = AccessPolicy(rules).Identify(forwarded, kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("not `local`, since it has the header x-forwarded-for"));
  // Where no identity is `local`, the header decides nothing.
  rules.identities[4].local = false;
  const auto unknown = AccessPolicy(rules).Identify(forwarded, kNow).status();
  EXPECT_THAT(std::string(unknown.message()), Not(HasSubstr("x-forwarded-for")));
  rules.identities[4].anonymous = true;
  EXPECT_EQ(NameOf(AccessPolicy(rules), forwarded), "machine");
}

TEST(AccessPolicyTest, WithoutRulesNobodyIsIdentified) {
  const AccessPolicy policy{AccessRules()};
  Credentials local;
  local.local = true;
  EXPECT_EQ(NameOf(policy, local), "");
  EXPECT_EQ(NameOf(policy, WithUri("spiffe://example/payments")), "");
}

// Every identity × namespace × permission.
TEST(AccessPolicyTest, TheMatrix) {
  using P = Permission;
  struct Row {
    const char* identity;
    const char* name_space;
    std::vector<P> allowed;
  };
  const std::vector<Row> rows = {
      {"payments", "payments", {P::kWrite, P::kRead}},
      {"payments", "orders", {}},
      {"payments", "other", {}},
      {"support", "payments", {P::kRead}},
      {"support", "orders", {P::kRead, P::kReadContent}},
      {"support", "other", {}},
      {"operators", "payments", {P::kWrite, P::kRead, P::kReadContent, P::kAdmin}},
      {"operators", "orders", {P::kWrite, P::kRead, P::kReadContent, P::kAdmin}},
      {"operators", "other", {P::kWrite, P::kRead, P::kReadContent, P::kAdmin}},
      {"anyone", "payments", {}},
      {"anyone", "orders", {}},
      {"anyone", "other", {}},
      {"machine", "payments", {}},
      {"machine", "orders", {}},
      {"machine", "other", {}},
  };
  const AccessRules rules = SomeRules();
  const AccessPolicy policy(rules);
  ASSERT_EQ(rows.size(), rules.identities.size() * 3);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < rules.identities.size(); ++i) {
      if (policy.NameOf(i) != row.identity) continue;
      for (const Permission permission : kAllPermissions) {
        const bool allowed =
            std::find(row.allowed.begin(), row.allowed.end(), permission) != row.allowed.end();
        EXPECT_EQ(policy.Allows(i, row.name_space, permission), allowed)
            << row.identity << " " << row.name_space << " " << PermissionName(permission);
        const absl::Status checked =
            policy.Check(i, KeyIn(row.name_space, row.identity), permission);
        EXPECT_EQ(checked.code(),
                  allowed ? absl::StatusCode::kOk : absl::StatusCode::kPermissionDenied);
      }
    }
  }
  EXPECT_TRUE(policy.AllowsAnywhere(0, P::kRead));
  EXPECT_FALSE(policy.AllowsAnywhere(0, P::kReadContent));
  EXPECT_TRUE(policy.AllowsAnywhere(2, P::kAdmin));
  EXPECT_FALSE(policy.AllowsAnywhere(3, P::kRead));
}

TEST(AccessPolicyTest, ScopesOfAPeerScopedNamespace) {
  const AccessPolicy policy(SomeRules());
  constexpr std::size_t kPayments = 0;
  for (const char* own : {"payments", "payments/tenant-7", "payments/"}) {
    EXPECT_TRUE(policy.Check(kPayments, KeyIn("payments", own), Permission::kWrite).ok()) << own;
  }
  for (const char* other :
       {"support", "payments2", "payment", "payments-2/x", "Payments", "/payments"}) {
    EXPECT_EQ(policy.Check(kPayments, KeyIn("payments", other), Permission::kWrite).code(),
              absl::StatusCode::kPermissionDenied)
        << other;
  }
  // Readers read every scope.
  EXPECT_TRUE(policy.Check(kPayments, KeyIn("payments", "support"), Permission::kRead).ok());
  // Elsewhere the caller chooses.
  EXPECT_TRUE(policy.Check(2, KeyIn("orders", "support"), Permission::kWrite).ok());
}

TEST(AccessPolicyTest, OfSeveralIssuersTheFaultIsThatOfTheTokensOwn) {
  const testing::TokenSigner a(testing::TokenSigner::Kind::kEd25519);
  const testing::TokenSigner b(testing::TokenSigner::Kind::kEd25519);
  AccessRules rules = SomeRules();
  rules.identities[0].token_subjects = {{"https://a.example", "payments"}};
  rules.issuers = {
      TokenIssuer("https://a.example", "idempotencyd", ParseJsonWebKeySet(a.KeySet()).value()),
      TokenIssuer("https://b.example", "idempotencyd", ParseJsonWebKeySet(b.KeySet()).value())};
  const AccessPolicy policy(rules);
  const auto claims = [](const std::string& issuer, absl::Time end) {
    return absl::StrCat(R"({"iss":")", issuer, R"(","aud":"idempotencyd","sub":"payments","exp":)",
                        absl::ToUnixSeconds(end), "}");
  };
  const auto fault = [&](const std::string& token) {
    return std::string(policy.Identify(WithToken(token), kNow).status().message());
  };
  const absl::Time later = kNow + absl::Minutes(1);
  EXPECT_EQ(fault(a.Sign(claims("https://a.example", later))), "");
  EXPECT_EQ(fault(a.Sign(claims("https://a.example", kNow - absl::Hours(1)))),
            "the token has expired");
  EXPECT_EQ(fault(b.Sign(claims("https://b.example", later))),
            "the token's subject is no identity's");
  EXPECT_EQ(fault(a.Sign(claims("https://c.example", later))),
            "the token's issuer is not configured");
  // Whose keys do not verify it.
  EXPECT_EQ(fault(b.Sign(claims("https://a.example", later))),
            "no current key of the issuer verifies the token's signature");
  EXPECT_EQ(fault("a.b.c"), "the token's claims are not a JSON object");
}

// Whose issuer and subject make one text.
TEST(AccessPolicyTest, TheSubjectOfOneIssuerIsNotThatOfAnother) {
  const testing::TokenSigner a(testing::TokenSigner::Kind::kEd25519);
  const testing::TokenSigner a1(testing::TokenSigner::Kind::kEd25519);
  AccessRules rules = SomeRules();
  rules.identities[0].token_subjects = {{"https://a", "1x"}};
  rules.identities[2].token_subjects = {{"https://a1", "x"}};
  rules.issuers = {
      TokenIssuer("https://a", "idempotencyd", ParseJsonWebKeySet(a.KeySet()).value()),
      TokenIssuer("https://a1", "idempotencyd", ParseJsonWebKeySet(a1.KeySet()).value())};
  const AccessPolicy policy(rules);
  const auto claims = [](const std::string& issuer, const std::string& subject) {
    return absl::StrCat(R"({"iss":")", issuer, R"(","aud":"idempotencyd","sub":")", subject,
                        R"(","exp":)", absl::ToUnixSeconds(kNow + absl::Minutes(1)), "}");
  };
  const auto name = [&](const testing::TokenSigner& signer, const std::string& issuer,
                        const std::string& subject) {
    return NameOf(policy, WithToken(signer.Sign(claims(issuer, subject))));
  };
  EXPECT_EQ(name(a, "https://a", "1x"), "payments");
  EXPECT_EQ(name(a1, "https://a1", "x"), "operators");
  EXPECT_EQ(name(a, "https://a", "x"), "");
  EXPECT_EQ(name(a1, "https://a1", "1x"), "");
}

class CallerTest : public ::testing::Test {
 protected:
  CallerTest() {
    clock_.StepWall(kNow - clock_.Now());
    access_.Restrict(std::make_shared<AccessPolicy>(SomeRules()), clock_);
  }
  static std::optional<Reason> Check(Caller& caller) {
    return ReasonOf(caller.Check(KeyIn("payments", "payments"), Permission::kWrite));
  }

  ManualClock clock_;
  AccessControl access_;
};

TEST_F(CallerTest, OfAnOpenServiceMayDoEverything) {
  const AccessControl open;
  Caller caller(open, Credentials());
  for (const Permission permission : kAllPermissions) {
    EXPECT_TRUE(caller.Check(KeyIn("payments"), permission).ok());
    EXPECT_TRUE(caller.CheckAnywhere(permission).ok());
    EXPECT_EQ(caller.CheckNamespace("payments", permission).value(), kLocalCaller);
  }
  EXPECT_FALSE(caller.MustRenew());
}

TEST_F(CallerTest, ReasonsOfRefusals) {
  Caller unknown(access_, WithToken("wrong"));
  EXPECT_EQ(Check(unknown), Reason::kCredentialsInvalid);
  EXPECT_EQ(ReasonOf(unknown.CheckAnywhere(Permission::kRead)), Reason::kCredentialsInvalid);
  EXPECT_EQ(ReasonOf(unknown.CheckNamespace("payments", Permission::kAdmin).status()),
            Reason::kCredentialsInvalid);
  EXPECT_TRUE(unknown.MustRenew());
  Caller known(access_, WithUri("spiffe://example/unknown"));
  EXPECT_EQ(Check(known), Reason::kAccessDenied);
  EXPECT_EQ(ReasonOf(known.CheckAnywhere(Permission::kRead)), Reason::kAccessDenied);
  EXPECT_EQ(ReasonOf(known.CheckNamespace("payments", Permission::kAdmin).status()),
            Reason::kAccessDenied);
  EXPECT_FALSE(known.MustRenew());
  Caller payments(access_, WithToken("payments-token"));
  EXPECT_EQ(Check(payments), std::nullopt);
  EXPECT_EQ(payments.CheckNamespace("payments", Permission::kRead).value(), "payments");
}

TEST_F(CallerTest, ANewPolicyAppliesToCallersThatAreConnected) {
  Caller caller(access_, WithToken("payments-token"));
  EXPECT_EQ(Check(caller), std::nullopt);
  AccessRules rules = SomeRules();
  rules.rules.erase(rules.rules.begin());
  access_.Replace(std::make_shared<AccessPolicy>(rules));
  EXPECT_EQ(Check(caller), Reason::kAccessDenied);
  rules.identities[0].token_digests = {Sha256("payments-next")};
  access_.Replace(std::make_shared<AccessPolicy>(rules));
  EXPECT_EQ(Check(caller), Reason::kCredentialsInvalid);
  EXPECT_TRUE(caller.MustRenew());
  access_.Replace(std::make_shared<AccessPolicy>(SomeRules()));
  EXPECT_EQ(Check(caller), std::nullopt);
  EXPECT_FALSE(caller.MustRenew());
}

TEST_F(CallerTest, IsRenewedBeforeItsTokenExpires) {
  const testing::TokenSigner signer(testing::TokenSigner::Kind::kEd25519);
  AccessRules rules = SomeRules();
  rules.identities[0].token_subjects = {{"https://issuer.example", "payments"}};
  rules.issuers = {TokenIssuer("https://issuer.example", "idempotencyd",
                               ParseJsonWebKeySet(signer.KeySet()).value())};
  access_.Replace(std::make_shared<AccessPolicy>(rules));
  const std::string claims =
      R"({"iss":"https://issuer.example","aud":"idempotencyd","sub":"payments","exp":1700000600})";
  Caller caller(access_, WithToken(signer.Sign(claims)));
  EXPECT_EQ(Check(caller), std::nullopt);
  EXPECT_FALSE(caller.MustRenew());
  const absl::Time end = kNow + absl::Minutes(10) + kTokenClockTolerance;
  clock_.Advance(end - Caller::kRenewal - absl::Milliseconds(1) - clock_.Now());
  EXPECT_FALSE(caller.MustRenew());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(caller.MustRenew());
  EXPECT_EQ(Check(caller), std::nullopt);
  clock_.Advance(Caller::kRenewal);
  EXPECT_EQ(Check(caller), Reason::kCredentialsInvalid);
  EXPECT_TRUE(caller.MustRenew());
}

TEST(CredentialsTest, PeersOfThisMachine) {
  for (const char* local : {"ipv4:127.0.0.1:4000", "ipv4:127.8.8.8:1", "ipv6:%5B::1%5D:4000",
                            "ipv6:[::1]:4000", "unix:/run/x", "unix:"}) {
    EXPECT_TRUE(IsLocalPeer(local)) << local;
  }
  for (const char* remote : {"ipv4:10.0.0.1:127", "ipv4:1.127.0.0:1", "ipv6:%5B::2%5D:1",
                             "ipv6:%5Bfe80::1%5D:1", "", "dns:localhost"}) {
    EXPECT_FALSE(IsLocalPeer(remote)) << remote;
  }
}

}  // namespace
}  // namespace idempotency::internal
