#include "explanation/printable_text.h"

#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

TEST(PrintableTextTest, OrdinaryTextStays) {
  EXPECT_EQ(PrintableText(""), "");
  EXPECT_EQ(PrintableText("order-1001 /a.B/C"), "order-1001 /a.B/C");
  EXPECT_EQ(PrintableText("Zoë 訂單 🙂"), "Zoë 訂單 🙂");
}

TEST(PrintableTextTest, NothingMovesTheCursorOrHides) {
  EXPECT_EQ(PrintableText("\x1b[2J\r\n\t\x7f"), "\\u{1b}[2J\\u{d}\\u{a}\\u{9}\\u{7f}");
  EXPECT_EQ(PrintableText("\xc2\x9b"
                          "31m"),
            "\\u{9b}31m");
  // Right-to-left override, zero width space, byte order mark, a tag.
  EXPECT_EQ(PrintableText("a\u202egpj.exe"), "a\\u{202e}gpj.exe");
  EXPECT_EQ(PrintableText("a\u200bb\ufeff\U000e0041"), "a\\u{200b}b\\u{feff}\\u{e0041}");
  EXPECT_EQ(PrintableText(std::string_view("\0", 1)), "\\u{0}");
}

TEST(PrintableTextTest, OtherBytesAreEscapedOneByOne) {
  EXPECT_EQ(PrintableText("\xff\x80ok\xc3"), "\\xff\\x80ok\\xc3");
  // A surrogate and an overlong form are not UTF-8.
  EXPECT_EQ(PrintableText("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(PrintableText("\xc0\xaf"), "\\xc0\\xaf");
}

TEST(PrintableTextTest, AnEscapeCannotBeFaked) { EXPECT_EQ(PrintableText("\\xff"), "\\\\xff"); }

TEST(PrintableTextTest, IsCutByCharacters) {
  EXPECT_EQ(ColumnsOf("Zoë"), 3);
  EXPECT_EQ(CutToColumns("Zoë", 3), "Zoë");
  EXPECT_EQ(CutToColumns("Zoë Zoë", 4), "Zoë…");
  EXPECT_EQ(CutToColumns("Zoë Zoë", 1), "…");
}

}  // namespace
}  // namespace idempotency::internal
