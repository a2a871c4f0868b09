#include "server/sealing/hmac_key.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/escaping.h"

#include "core/absl_view.h"
#include "server/sealing/record_identity.h"
#include "server/sealing/sealed_box.h"

namespace idempotency::internal {
namespace {

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(AbslView(bytes)); }
std::string Hex(const Sha256Digest& digest) {
  return Hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// RFC 4231, test case 2.
TEST(HmacKeyTest, SignsAsTheStandardDoes) {
  const HmacKey key("Jefe");
  const std::string wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  EXPECT_EQ(Hex(key.Sign({"what do ya want for nothing?"})), wanted);
  EXPECT_EQ(Hex(key.Sign({"what do ya want", " for ", "nothing?"})), wanted);
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")), wanted);
}

// RFC 5869, test case 1: the first 32 bytes of its output are the first block.
TEST(HmacKeyTest, DerivesAsTheStandardDoes) {
  const HmacKey extracted =
      HmacKey::Extract(absl::HexStringToBytes("000102030405060708090a0b0c"), std::string(22, 0x0b));
  Secret key;
  extracted.Expand(absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9"), key);
  EXPECT_EQ(Hex(key.view()), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  EXPECT_EQ(extracted.Expand(absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9")).Sign({"x"}),
            HmacKey(key.view()).Sign({"x"}));
}

class SealedBoxTest : public ::testing::Test {
 protected:
  SealedBoxTest() { HmacKey("a").Expand("b", key_); }
  Secret key_;
};

TEST_F(SealedBoxTest, OpensWithTheSameKeyAndAssociatedBytes) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(100'000, 'y')}) {
    std::string box = "before";
    BoxKey(key_).Append("associated", text, box);
    EXPECT_EQ(box.size(), 6 + text.size() + kBoxBytes);
    const std::string_view sealed = std::string_view(box).substr(6);
    BoxKey key(key_);
    EXPECT_EQ(key.Open("associated", sealed), text);
    EXPECT_EQ(key.Open("associate", sealed), std::nullopt);
    EXPECT_EQ(key.Open("", sealed), std::nullopt);
    Secret other;
    HmacKey("a").Expand("c", other);
    EXPECT_EQ(BoxKey(other).Open("associated", sealed), std::nullopt);
    // One key does both, in any order.
    std::string next;
    key.Append("next", text, next);
    EXPECT_EQ(key.Open("next", next), text);
    EXPECT_EQ(key.Open("associated", sealed), text);
  }
}

// The test vector of AES-256-GCM with a text and associated bytes: McGrew and Viega, "The
// Galois/Counter Mode of Operation", test case 16.
TEST_F(SealedBoxTest, OpensAsTheStandardDoes) {
  const std::string bytes =
      absl::HexStringToBytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  Secret key;
  std::copy(bytes.begin(), bytes.end(), key.data());
  const std::string box = absl::HexStringToBytes(
      "cafebabefacedbaddecaf888"
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
      "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
      "76fc6ece0f4e1768cddf8853bb2d551b");
  const auto text =
      BoxKey(key).Open(absl::HexStringToBytes("feedfacedeadbeeffeedfacedeadbeefabaddad2"), box);
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(Hex(*text),
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
            "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
}

TEST_F(SealedBoxTest, TwoBoxesOfATextDiffer) {
  std::string one;
  std::string two;
  BoxKey key(key_);
  key.Append("", "text", one);
  key.Append("", "text", two);
  EXPECT_NE(one.substr(0, kBoxNonceBytes), two.substr(0, kBoxNonceBytes));
  EXPECT_NE(one.substr(kBoxNonceBytes), two.substr(kBoxNonceBytes));
}

// More than are drawn at once, by several threads, and by a child of this process.
TEST_F(SealedBoxTest, NoNonceComesTwice) {
  constexpr int kBoxes = 300;
  const auto nonces = [this] {
    std::string all;
    BoxKey key(key_);
    for (int i = 0; i < kBoxes; ++i) {
      std::string box;
      key.Append("", "", box);
      all += box.substr(0, kBoxNonceBytes);
    }
    return all;
  };
  std::string all = nonces();
  std::string of_another_thread;
  std::thread([&] { of_another_thread = nonces(); }).join();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = nonces();
    _exit(write(ends[1], own.data(), own.size()) == static_cast<ssize_t>(own.size()) ? 0 : 1);
  }
  all += nonces();
  std::string of_the_child(kBoxes * kBoxNonceBytes, '\0');
  for (std::size_t at = 0; at < of_the_child.size();) {
    const ssize_t got = read(ends[0], &of_the_child[at], of_the_child.size() - at);
    ASSERT_GT(got, 0);
    at += static_cast<std::size_t>(got);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  all += of_another_thread + of_the_child;
  std::set<std::string> distinct;
  for (std::size_t at = 0; at < all.size(); at += kBoxNonceBytes) {
    distinct.insert(all.substr(at, kBoxNonceBytes));
  }
  EXPECT_EQ(distinct.size(), 4U * kBoxes);
}

TEST(RecordIdentityTest, DiffersWhereverAPartDoes) {
  const RecordKey key = {"ns", "scope", "op", "key"};
  const RecordId id = RecordIdFor(key);
  const std::string identity = RecordIdentity("use", key, id);
  EXPECT_NE(identity, RecordIdentity("us", key, id));
  EXPECT_NE(identity, RecordIdentity("use", {"nss", "cope", "op", "key"}, id));
  EXPECT_NE(identity, RecordIdentity("use", {"ns", "scopeo", "p", "key"}, id));
  EXPECT_NE(identity, RecordIdentity("use", {"ns", "scope", "op", "kez"}, id));
  EXPECT_NE(identity, RecordIdentity("use", key, Uuid()));
}

}  // namespace
}  // namespace idempotency::internal
