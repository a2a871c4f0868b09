#include "idempotencyd/processor_settings_from.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A configuration that is valid, with `more` in its section.
LoadedConfig With(const std::string& more) {
  LoadedConfig loaded;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "external_processor { namespace: 'shop' on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY "
      "grpc_methods { name: 'shop.v1.Orders/Place' } " +
          more + "}",
      &loaded.config));
  return loaded;
}

constexpr char kShared[] = "scope { shared: 'all' } ";

std::string FaultsOf(const LoadedConfig& loaded) {
  return std::string(ProcessorSettingsFrom(loaded).status().message());
}

TEST(ProcessorSettingsTest, AValidSectionHasNoFaults) { EXPECT_EQ(FaultsOf(With(kShared)), ""); }

// A number of another unit would refuse every request, or all but one.
TEST(ProcessorSettingsTest, BoundsAreNotTooLow) {
  const auto faults_of = [](const std::string& bound) { return FaultsOf(With(kShared + bound)); };
  for (const char* good :
       {"max_request_bytes: 65536",
        "max_request_bytes: 67108864 "
        "max_held_bytes: 268435456",
        "max_exchanges: 64", "max_request_bytes: 0 max_exchanges: 0 max_held_bytes: 0"}) {
    EXPECT_EQ(faults_of(good), "") << good;
  }
  EXPECT_THAT(faults_of("max_request_bytes: 4"), HasSubstr("max_request_bytes must be 65536 to"));
  EXPECT_THAT(faults_of("max_request_bytes: 65535"), HasSubstr("or 0 for the default"));
  EXPECT_THAT(faults_of("max_request_bytes: 67108865"), HasSubstr("max_request_bytes must be"));
  EXPECT_THAT(faults_of("max_exchanges: 63"), HasSubstr("max_exchanges must be at least 64"));
  EXPECT_THAT(faults_of("max_held_bytes: 256"), HasSubstr("max_held_bytes must be at least"));
}

TEST(ProcessorSettingsTest, AScopeHeaderIsOneThatAProxyCanSet) {
  const auto faults_of = [](const std::string& header) {
    return FaultsOf(With("scope { header: '" + header + "' }"));
  };
  for (const char* good : {"x-tenant", "X-Tenant", "x_tenant.2"}) EXPECT_EQ(faults_of(good), "");
  for (const char* bad : {"", "x tenant", ":authority", "x-tenant:", "x-t\\303\\244nant"}) {
    EXPECT_THAT(faults_of(bad), HasSubstr("scope: header must be a name")) << bad;
  }
  for (const char* bad : {"authorization", "Authorization", "proxy-authorization", "cookie",
                          "idempotency-key", "x-request-id", "traceparent"}) {
    EXPECT_THAT(faults_of(bad), HasSubstr("scope: header must not be")) << bad;
  }
}

TEST(ProcessorSettingsTest, SeveralScopesAreOne) {
  const auto scope_of = [](const std::string& scope) {
    return ProcessorSettingsFrom(With(scope)).value()->config.scope;
  };
  EXPECT_EQ(scope_of("scope { peer: URI }"), ScopeSource(PeerName::kUri));
  EXPECT_EQ(scope_of("scope { peer: URI } scope { header: 'X-User' }"),
            ScopeSource(CombinedScopeSource{{PeerName::kUri, ScopeHeader{"x-user"}}}));
  EXPECT_THAT(FaultsOf(With("scope { peer: URI } scope {}")), HasSubstr("scope needs one of"));
  EXPECT_THAT(FaultsOf(With("")), HasSubstr("scope needs one of"));
}

TEST(ProcessorSettingsTest, UnrecordedHeadersAreNamesOfHeaders) {
  const auto settings =
      ProcessorSettingsFrom(With(std::string(kShared) + "unrecorded_headers: 'Set-Cookie'"));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_THAT((*settings)->config.unrecorded_headers, ::testing::ElementsAre("set-cookie"));
  for (const char* bad : {"", ":status", "set cookie"}) {
    EXPECT_THAT(FaultsOf(With(std::string(kShared) + "unrecorded_headers: '" + bad + "'")),
                HasSubstr("unrecorded_headers must be a name"))
        << bad;
  }
}

TEST(ProcessorSettingsTest, AMethodNamesItsOperation) {
  const auto settings = ProcessorSettingsFrom(With(
      std::string(kShared) + "grpc_methods { name: 'shop.v2.Orders/Place' operation: '/place' }"));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ((*settings)->routes->ForGrpc("/shop.v2.Orders/Place").value()->operation, "/place");
}

TEST(ProcessorSettingsTest, AnEntryStatesTheFormatOfItsKeys) {
  const auto settings = ProcessorSettingsFrom(
      With(std::string(kShared) +
           "grpc_methods { name: 'shop.v2.Orders/Place' key_format: UUIDV7 } "
           "http_routes { path: '/orders' methods: 'POST' key_format: UUIDV7 } "
           "http_routes { path: '/views' methods: 'POST' }"));
  ASSERT_TRUE(settings.ok()) << settings.status();
  const RouteTable& routes = *(*settings)->routes;
  EXPECT_FALSE(routes.ForGrpc("/shop.v1.Orders/Place").value()->key_validator);
  EXPECT_TRUE(routes.ForGrpc("/shop.v2.Orders/Place").value()->key_validator);
  EXPECT_TRUE(routes.ForHttp("POST", "/orders").value()->key_validator);
  EXPECT_FALSE(routes.ForHttp("POST", "/views").value()->key_validator);
  for (const char* unknown : {"grpc_methods { name: 'shop.v2.Orders/Place' key_format: 7 }",
                              "http_routes { path: '/o' methods: 'POST' key_format: 7 }"}) {
    EXPECT_THAT(FaultsOf(With(std::string(kShared) + unknown)),
                HasSubstr("key_format must be UUIDV7"));
  }
}

// Every request would be refused for it.
TEST(ProcessorSettingsTest, ASharedScopeIsOneThatARecordCanHave) {
  EXPECT_EQ(FaultsOf(With("scope { shared: 'all of them' }")), "");
  for (const std::string& bad : {std::string(), std::string("a\\001"), std::string(256, 'a')}) {
    EXPECT_THAT(FaultsOf(With("scope { shared: '" + bad + "' }")),
                HasSubstr("external_processor: scope: shared "))
        << bad;
  }
}

// Every first call would be refused, while the file counts as valid.
TEST(ProcessorSettingsTest, ARetentionOutsideOfTheNamespacesBoundsIsAFault) {
  LoadedConfig loaded = With(kShared);
  NamespaceSettings& bounds = loaded.namespaces["shop"];
  EXPECT_EQ(FaultsOf(loaded), "");
  bounds.max_retention = absl::Hours(1);
  EXPECT_THAT(FaultsOf(loaded),
              HasSubstr("grpc_methods shop.v1.Orders/Place: its retention is 24h, and the "
                        "namespace shop admits 1s to 1h: set retention in its policy"));
  loaded = With(std::string(kShared) +
                "http_routes { path: '/orders' methods: 'POST' "
                "policy { retention { seconds: 1800 } lease { seconds: 9 } } } "
                "http_routes { path: '/views' methods: 'POST' policy { key: KEY_NONE } }");
  loaded.namespaces["shop"].min_retention = absl::Hours(1);
  EXPECT_THAT(FaultsOf(loaded), HasSubstr("http_routes POST /orders: its retention is 30m"));
  EXPECT_THAT(FaultsOf(loaded), Not(HasSubstr("Orders/Place")));
  EXPECT_THAT(FaultsOf(loaded), Not(HasSubstr("/views"))) << "it is not guarded";
  loaded.namespaces.clear();
  loaded.namespaces["other"].max_retention = absl::Hours(1);
  EXPECT_EQ(FaultsOf(loaded), "");
}

TEST(ProcessorSettingsTest, MoreExchangesThanTheStreamsOfAnAddressAreWarnedOf) {
  const ExchangeBounds::Limits limits =
      ExchangeLimitsFrom(With(std::string(kShared) + "max_exchanges: 20000"));
  EXPECT_EQ(StreamsWarning(limits, 20000), "");
  EXPECT_THAT(StreamsWarning(limits, 16384), HasSubstr("set --max_calls=40000"));
  EXPECT_EQ(StreamsWarning(ExchangeLimitsFrom(With(kShared)), 16384), "") << "the defaults";
}

}  // namespace
}  // namespace idempotency::internal
