#include "core/sha256.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace idempotency::internal {
namespace {

std::string Hex(const Sha256Digest& digest) {
  return absl::BytesToHexString(std::string(digest.begin(), digest.end()));
}

// Values of FIPS 180-4's examples.
TEST(Sha256Test, KnownValues) {
  EXPECT_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Test case 2 of RFC 4231.
TEST(HmacSha256Test, KnownValue) {
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace idempotency::internal
