#include "core/utf8.h"

#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

// One entry per edge of the table of well-formed sequences.
constexpr std::string_view kWellFormed[] = {
    "",
    "plain",
    "\x7F",
    "\xC2\x80",
    "\xDF\xBF",
    "\xE0\xA0\x80",
    "\xED\x9F\xBF",
    "\xEE\x80\x80",
    "\xEF\xBF\xBF",
    "\xF0\x90\x80\x80",
    "\xF3\xBF\xBF\xBF",
    "\xF4\x8F\xBF\xBF",
};

constexpr std::string_view kIllFormed[] = {
    "\x80",              // a continuation alone
    "\xC1\xBF",          // overlong, two bytes
    "\xE0\x9F\xBF",      // overlong, three bytes
    "\xED\xA0\x80",      // a surrogate
    "\xF0\x8F\xBF\xBF",  // overlong, four bytes
    "\xF4\x90\x80\x80",  // above U+10FFFF
    "\xF5\x80\x80\x80",  // the same
    "\xC2",              // cut
    "\xE2\x82",          // cut
    "\xF0\x90\x80",      // cut
    "\xE2\x28\xA1",      // a wrong second byte
    "\xE2\x82\x28",      // a wrong third byte
};

TEST(Utf8Test, DistinguishesWellFormedFromIllFormed) {
  for (const std::string_view text : kWellFormed) EXPECT_TRUE(IsUtf8(text)) << text;
  for (const std::string_view text : kIllFormed) EXPECT_FALSE(IsUtf8(text)) << text;
}

TEST(Utf8Test, ControlCharactersAreFound) {
  EXPECT_TRUE(IsUtf8WithoutControls("Zürich \xC2\xA0 \xE2\x82\xAC"));
  EXPECT_FALSE(IsUtf8WithoutControls(std::string_view("\0", 1)));
  EXPECT_FALSE(IsUtf8WithoutControls("a\nb"));
  EXPECT_FALSE(IsUtf8WithoutControls("\x1F"));
  EXPECT_FALSE(IsUtf8WithoutControls("\x7F"));
  EXPECT_FALSE(IsUtf8WithoutControls("\xC2\x80"));
  EXPECT_FALSE(IsUtf8WithoutControls("\xC2\x9F"));
  EXPECT_FALSE(IsUtf8WithoutControls("\xFF"));
}

TEST(Utf8Test, ToUtf8ReplacesOnlyWhatIsBroken) {
  for (const std::string_view text : kWellFormed) EXPECT_EQ(ToUtf8(text), text);
  for (const std::string_view text : kIllFormed) EXPECT_TRUE(IsUtf8(ToUtf8(text))) << text;
  EXPECT_EQ(ToUtf8("a\xFFz\xE2\x82"), "a?z??");
}

TEST(Utf8Test, ASpaceReplacesEachByteOfAControlCharacter) {
  EXPECT_EQ(WithoutControls("a\nb\x7F\xC2\x85z"), "a b   z");
  EXPECT_EQ(WithoutControls("Z\xC3\xBCrich \xC2\xA0"), "Z\xC3\xBCrich \xC2\xA0");
  EXPECT_EQ(WithoutControls("a\xC2"), "a\xC2");
}

TEST(Utf8Test, PrefixNeverCutsACharacter) {
  EXPECT_EQ(Utf8Prefix("abc", 3), "abc");
  EXPECT_EQ(Utf8Prefix("abc", 2), "ab");
  EXPECT_EQ(Utf8Prefix("a\xE2\x82\xAC", 4), "a\xE2\x82\xAC");
  EXPECT_EQ(Utf8Prefix("a\xE2\x82\xAC", 3), "a");
  EXPECT_EQ(Utf8Prefix("a\xE2\x82\xAC", 2), "a");
  EXPECT_EQ(Utf8Prefix("\xE2\x82\xAC", 1), "");
}

}  // namespace
}  // namespace idempotency::internal
