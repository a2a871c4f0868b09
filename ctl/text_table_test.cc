#include "ctl/text_table.h"

#include <gtest/gtest.h>

#include <utility>

namespace idempotency::internal {
namespace {

TEST(TextTableTest, AlignsByCharacters) {
  TextTable table({"A", "B"});
  table.AddRow({"Zoë", "1"});
  table.AddRow({"x", "22"});
  EXPECT_EQ(table.TakeText(0), "A    B\nZoë  1\nx    22\n");
}

TEST(TextTableTest, CutsTheWidestColumns) {
  for (const auto& [width, text] : {std::pair(14, "A            B\n0123456789…  b\n"),
                                    // Each keeps a minimum, so that a narrow terminal wraps lines.
                                    std::pair(3, "A         B\n0123456…  b\n")}) {
    TextTable table({"A", "B"});
    table.AddRow({"0123456789012345", "b"});
    EXPECT_EQ(table.TakeText(width), text);
  }
}

TEST(TextTableTest, LaterRowsAreAlignedWithEarlierOnes) {
  TextTable table({"A", "B"});
  table.AddRow({"four", "1"});
  EXPECT_EQ(table.TakeText(0), "A     B\nfour  1\n");
  EXPECT_EQ(table.TakeText(0), "");
  table.AddRow({"x", "2"});
  EXPECT_EQ(table.TakeText(0), "x     2\n");
}

}  // namespace
}  // namespace idempotency::internal
