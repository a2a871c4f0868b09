#include "interceptors/ext_proc/request/scope_source.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

using testing::HasSubstr;

ProxyContext With(const std::map<std::string, std::string>& attributes) {
  envoy::service::ext_proc::v3::ProcessingRequest message;
  auto& fields = *(*message.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields();
  for (const auto& [name, value] : attributes) {
    if (value == "true" || value == "false") {
      fields[name].set_bool_value(value == "true");
    } else {
      fields[name].set_string_value(value);
    }
  }
  ProxyContext context;
  context.Add(message);
  return context;
}

TEST(ScopeSourceTest, ThePeersNameIsTheGuardsScope) {
  const ProxyContext context = With(
      {{"connection.mtls", "true"}, {"connection.uri_san_peer_certificate", "spiffe://shop/a,b"}});
  EXPECT_EQ(ScopeFrom(PeerName::kUri, context, {}).value(), "spiffe://shop/a\\,b");
  EXPECT_TRUE(absl::IsUnauthenticated(ScopeFrom(PeerName::kDns, context, {}).status()));
}

TEST(ScopeSourceTest, WithoutAPeerThereIsNoScope) {
  const auto fault = [](const ProxyContext& context) {
    const auto scope = ScopeFrom(PeerName::kUri, context, {});
    EXPECT_TRUE(absl::IsUnauthenticated(scope.status()));
    return std::string(scope.status().message());
  };
  // The proxy's configuration is at fault.
  EXPECT_THAT(fault(With({})), HasSubstr("request_attributes must list connection.mtls"));
  EXPECT_THAT(fault(With({{"connection.mtls", "false"},
                          {"connection.uri_san_peer_certificate", "spiffe://forged"}})),
              HasSubstr("needs a client certificate"));
  EXPECT_THAT(fault(With({{"connection.mtls", "true"}})),
              HasSubstr("connection.uri_san_peer_certificate"));
}

TEST(ScopeSourceTest, AttributesOfOtherFiltersAreNotEnvoys) {
  envoy::service::ext_proc::v3::ProcessingRequest message;
  auto& fields = *(*message.mutable_attributes())["another"].mutable_fields();
  fields["connection.mtls"].set_bool_value(true);
  fields["connection.uri_san_peer_certificate"].set_string_value("spiffe://forged");
  ProxyContext context;
  context.Add(message);
  EXPECT_FALSE(ScopeFrom(PeerName::kUri, context, {}).ok());
}

TEST(ScopeSourceTest, AHeaderMustOccurOnce) {
  const ScopeSource source = ScopeHeader{"x-tenant"};
  EXPECT_EQ(ScopeFrom(source, {}, HeaderList({{"x-tenant", "a"}})).value(), "a");
  EXPECT_FALSE(ScopeFrom(source, {}, HeaderList()).ok());
  EXPECT_FALSE(ScopeFrom(source, {}, HeaderList({{"x-tenant", ""}})).ok());
  EXPECT_FALSE(ScopeFrom(source, {}, HeaderList({{"x-tenant", "a"}, {"x-tenant", "b"}})).ok());
}

// As CombinedScope of a guard.
TEST(ScopeSourceTest, SeveralAreOneScope) {
  const ScopeSource source = CombinedScopeSource{{PeerName::kUri, ScopeHeader{"x-user"}}};
  const ProxyContext context =
      With({{"connection.mtls", "true"}, {"connection.uri_san_peer_certificate", "spiffe://bff"}});
  const auto scope_of = [&](const std::string& user) {
    return ScopeFrom(source, context, HeaderList({{"x-user", user}}));
  };
  EXPECT_EQ(scope_of("alice").value(), "spiffe://bff,alice");
  EXPECT_EQ(scope_of("a,b").value(), "spiffe://bff,a\\,b");
  EXPECT_TRUE(absl::IsUnauthenticated(ScopeFrom(source, context, {}).status()));
  EXPECT_TRUE(
      absl::IsUnauthenticated(ScopeFrom(source, {}, HeaderList({{"x-user", "alice"}})).status()));
  EXPECT_FALSE(scope_of(std::string(256, 'a')).ok()) << "not a scope of its own";
  EXPECT_TRUE(StatesCallers(source, context));
  EXPECT_FALSE(StatesCallers(source, {}));
}

TEST(ScopeSourceTest, AShareIsThePeersOrTheFirstNamedCallers) {
  const ProxyContext context =
      With({{"connection.mtls", "true"}, {"connection.uri_san_peer_certificate", "spiffe://bff"}});
  const HeaderList headers({{"x-user", "alice"}, {"x-tenant", "shop"}});
  const auto share_of = [&](const ScopeSource& source) {
    return ShareFrom(source, context, headers, /*scope=*/"the scope");
  };
  const ScopeHeader user{"x-user"};
  const ScopeHeader tenant{"x-tenant"};
  const SharedScopeName shared{"all"};
  EXPECT_EQ(share_of(user), "the scope");
  EXPECT_EQ(share_of(CombinedScopeSource{{user, PeerName::kUri}}), "spiffe://bff");
  EXPECT_EQ(share_of(CombinedScopeSource{{shared, tenant, user}}), "shop");
  EXPECT_EQ(share_of(CombinedScopeSource{{shared, shared}}), "the scope");
}

TEST(ScopeSourceTest, AClaimIsText) {
  envoy::service::ext_proc::v3::ProcessingRequest message;
  auto& payload = *(*(*message.mutable_metadata_context()->mutable_filter_metadata())["jwt"]
                         .mutable_fields())["payload"]
                       .mutable_struct_value()
                       ->mutable_fields();
  payload["sub"].set_string_value("alice");
  payload["exp"].set_number_value(1);
  ProxyContext context;
  context.Add(message);
  EXPECT_EQ(ScopeFrom(ScopeMetadata{"jwt", {"payload", "sub"}}, context, {}).value(), "alice");
  EXPECT_FALSE(ScopeFrom(ScopeMetadata{"jwt", {"payload", "exp"}}, context, {}).ok());
  EXPECT_FALSE(ScopeFrom(ScopeMetadata{"jwt", {"payload"}}, context, {}).ok());
  EXPECT_FALSE(ScopeFrom(ScopeMetadata{"jwt", {"payload", "sub", "x"}}, context, {}).ok());
  EXPECT_FALSE(ScopeFrom(ScopeMetadata{"other", {"payload", "sub"}}, context, {}).ok());
}

}  // namespace
}  // namespace idempotency::internal
