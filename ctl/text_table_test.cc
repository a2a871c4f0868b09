#include "ctl/text_table.h"

#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

TEST(TextTableTest, AlignsByCharacters) {
  TextTable table({"A", "B"});
  table.AddRow({"Zoë", "1"});
  table.AddRow({"x", "22"});
  EXPECT_EQ(table.ToString(0), "A    B\nZoë  1\nx    22\n");
}

TEST(TextTableTest, CutsTheWidestColumns) {
  TextTable table({"A", "B"});
  table.AddRow({"0123456789012345", "b"});
  EXPECT_EQ(table.ToString(14), "A            B\n0123456789…  b\n");
  // Each keeps a minimum, so that a narrow terminal wraps lines.
  EXPECT_EQ(table.ToString(3), "A         B\n0123456…  b\n");
}

}  // namespace
}  // namespace idempotency::internal
