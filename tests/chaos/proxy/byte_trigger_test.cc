#include "tests/chaos/proxy/byte_trigger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::internal::chaos {
namespace {

using ::testing::Optional;

TEST(ByteTriggerTest, Bytes) {
  ByteTrigger trigger = ByteTrigger::AfterBytes(5);
  EXPECT_EQ(trigger.Feed("abc"), std::nullopt);
  EXPECT_EQ(trigger.Feed("d"), std::nullopt);
  EXPECT_THAT(trigger.Feed("efg"), Optional(1));
}

TEST(ByteTriggerTest, BytesUpToTheEndOfAPiece) {
  ByteTrigger trigger = ByteTrigger::AfterBytes(3);
  EXPECT_THAT(trigger.Feed("abc"), Optional(3));
}

TEST(ByteTriggerTest, TextInOnePiece) {
  ByteTrigger trigger = ByteTrigger::AfterText("COMMIT");
  EXPECT_EQ(trigger.Feed("BEGIN; COMMI"), std::nullopt);
  EXPECT_EQ(trigger.Feed("SSION"), std::nullopt);
  EXPECT_THAT(trigger.Feed("; COMMIT;"), Optional(8));
}

TEST(ByteTriggerTest, TextCutAnywhere) {
  const std::string stream = "COMCOMMCOMMIT; rest";
  const std::size_t place = stream.find("COMMIT") + 6;
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    ByteTrigger trigger = ByteTrigger::AfterText("COMMIT");
    std::optional<std::size_t> found;
    std::size_t before = 0;
    for (; !found.has_value(); before += size) {
      ASSERT_LT(before, stream.size()) << size;
      found = trigger.Feed(std::string_view(stream).substr(before, size));
      if (found.has_value()) break;
    }
    EXPECT_EQ(before + *found, place) << size;
  }
}

TEST(ByteTriggerTest, BytesThatAreNoText) {
  ByteTrigger trigger = ByteTrigger::AfterText(std::string("\0\xff", 2));
  EXPECT_EQ(trigger.Feed(std::string_view("a\0", 2)), std::nullopt);
  EXPECT_THAT(trigger.Feed("\xffz"), Optional(1));
}

}  // namespace
}  // namespace idempotency::internal::chaos
