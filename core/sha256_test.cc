#include "core/sha256.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace idempotency {
namespace {

std::string Hex(const Sha256Digest& digest) {
  return absl::BytesToHexString(std::string(digest.begin(), digest.end()));
}

// Values of FIPS 180-4's examples.
TEST(Sha256Test, KnownValues) {
  EXPECT_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AppendBigEndian32Test, HighestByteFirst) {
  std::string out = "x";
  AppendBigEndian32(0x01020380, out);
  EXPECT_EQ(out, "x\x01\x02\x03\x80");
}

}  // namespace
}  // namespace idempotency
