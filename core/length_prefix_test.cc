#include "core/length_prefix.h"

#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

TEST(AppendBigEndian32Test, HighestByteFirst) {
  std::string out = "x";
  AppendBigEndian32(0x01020380, out);
  EXPECT_EQ(out, "x\x01\x02\x03\x80");
}

TEST(AppendPartTest, NoTwoListsOfPartsAreEqual) {
  std::string one;
  AppendPart("ab", one);
  AppendPart("c", one);
  std::string other;
  AppendPart("a", other);
  AppendPart("bc", other);
  EXPECT_NE(one, other);
  EXPECT_EQ(ReadBigEndian32(one), 2U);
}

}  // namespace
}  // namespace idempotency::internal
