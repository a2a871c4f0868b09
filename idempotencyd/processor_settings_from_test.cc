#include "idempotencyd/processor_settings_from.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

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

TEST(ProcessorSettingsTest, MoreExchangesThanTheStreamsOfAnAddressAreWarnedOf) {
  const ExchangeBounds::Limits limits =
      ExchangeLimitsFrom(With(std::string(kShared) + "max_exchanges: 20000"));
  EXPECT_EQ(StreamsWarning(limits, 20000), "");
  EXPECT_THAT(StreamsWarning(limits, 16384), HasSubstr("set --max_calls=40000"));
  EXPECT_EQ(StreamsWarning(ExchangeLimitsFrom(With(kShared)), 16384), "") << "the defaults";
}

}  // namespace
}  // namespace idempotency::internal
