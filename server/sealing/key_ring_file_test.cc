#include "server/sealing/key_ring_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

#include "server/limits.h"
#include "server/testing/test_key_ring.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

class KeyRingFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  mode_t Mode() {
    struct stat file {};
    EXPECT_EQ(stat(path_.c_str(), &file), 0);
    return file.st_mode & 07777;
  }
  std::string Refusal() { return std::string(ReadKeyRingFile(path_).status().message()); }

  testing::TempFolder folder_;
  const std::string path_ = folder_.File("keyring");
};

TEST_F(KeyRingFileTest, IsReadIfOnlyItsOwnerAndGroupMayReadIt) {
  for (const mode_t mode : {0400, 0600, 0440, 0640}) {
    Write(TestKey(1, kNow), mode);
    EXPECT_TRUE(ReadKeyRingFile(path_).ok()) << mode;
  }
  for (const mode_t mode : {0604, 0602, 0601, 0620, 0644, 0660, 0666}) {
    Write(TestKey(1, kNow), mode);
    EXPECT_THAT(Refusal(), HasSubstr(absl::StrCat("run `chmod 600 ", path_, "`"))) << mode;
  }
}

TEST_F(KeyRingFileTest, NamesTheFileAndWhatIsWrongWithIt) {
  EXPECT_THAT(Refusal(), HasSubstr(absl::StrCat(path_, ": cannot be read: No such file")));
  Write("");
  EXPECT_THAT(Refusal(), HasSubstr(absl::StrCat(path_, ": keys must be 1 to 32 keys")));
  Write(TestKey(1, kNow) + std::string(limits::kMaxKeyRingFileBytes, ' '));
  EXPECT_THAT(Refusal(), HasSubstr("is larger than 65536 bytes"));
  EXPECT_THAT(std::string(ReadKeyRingFile(folder_.path()).status().message()),
              HasSubstr("is no regular file"));
  // A file without an end does not hold up the caller.
  EXPECT_THAT(std::string(ReadKeyRingFile("/dev/zero").status().message()),
              HasSubstr("is no regular file"));
}

TEST_F(KeyRingFileTest, AGeneratedKeyIsRandomAndPrivate) {
  const std::uint32_t id = GenerateKey(path_, {}, kNow).value();
  EXPECT_EQ(Mode(), 0600U);
  const auto first = ReadKeyRingFile(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->SealsAt(kNow)->id(), id) << "the first key seals at once";
  const std::string other = folder_.File("other");
  ASSERT_TRUE(GenerateKey(other, {}, kNow).ok());
  EXPECT_FALSE((*ReadKeyRingFile(other))->IsSameAs(**first));
}

// A key is added to an older copy, or on two machines at once: one id for two secrets would let
// honest retries appear as other requests.
TEST_F(KeyRingFileTest, TwoKeysNeverGetTheSameId) {
  const std::string copy = folder_.File("copy");
  const std::uint32_t first = GenerateKey(path_, {}, kNow).value();
  EXPECT_NE(GenerateKey(copy, {}, kNow).value(), first) << "two files that begin";
  ASSERT_EQ(std::remove(copy.c_str()), 0);
  ASSERT_EQ(link(path_.c_str(), copy.c_str()), 0);
  EXPECT_NE(GenerateKey(path_, {}, kNow).value(), GenerateKey(copy, {}, kNow).value());
}

// Ids are in no order.
TEST_F(KeyRingFileTest, OfTwoKeysForTheSameSecondTheLaterOneSeals) {
  for (int i = 0; i < 8; ++i) {
    const absl::Time now = kNow + absl::Milliseconds(i);
    const std::uint32_t id = GenerateKey(path_, {absl::ZeroDuration()}, now).value();
    EXPECT_EQ((*ReadKeyRingFile(path_))->SealsAt(now)->id(), id) << i;
  }
}

TEST_F(KeyRingFileTest, AFurtherKeyWaitsUntilEveryReplicaHasIt) {
  Write("# mine\n" + TestKey(7, kNow - absl::Hours(1)), 0640);
  const std::uint32_t second = GenerateKey(path_, {}, kNow).value();
  EXPECT_EQ(Mode(), 0640U);
  EXPECT_THAT(Read(path_), HasSubstr("# mine\n" + TestKey(7, kNow - absl::Hours(1))));
  const std::uint32_t third = GenerateKey(path_, {absl::Hours(48)}, kNow).value();
  const auto ring = ReadKeyRingFile(path_);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ((*ring)->SealsAt(kNow)->id(), 7U);
  EXPECT_EQ((*ring)->SealsAt(kNow + kDefaultSealsIn)->id(), second);
  EXPECT_EQ((*ring)->SealsAt(kNow + absl::Hours(48))->id(), third);
}

// It leaked with the others, and would seal again a day later.
TEST_F(KeyRingFileTest, AKeyThatWouldTakeOverFromTheNewOneIsNamed) {
  const std::string text = TestKey(7, kNow - absl::Hours(1)) + TestKey(8, kNow + absl::Hours(24));
  Write(text);
  // Never the advice to remove a key which another machine may have sealed with.
  EXPECT_THAT(
      std::string(GenerateKey(path_, {absl::Minutes(5)}, kNow).status().message()),
      ::testing::AllOf(HasSubstr("has key 8, which would take over from the new one at "
                                 "2026-01-02T00:00:00"),
                       HasSubstr("\"Removal of a key\""), Not(HasSubstr("has sealed nothing"))));
  EXPECT_EQ(Read(path_), text);
  EXPECT_TRUE(GenerateKey(path_, {absl::Hours(24)}, kNow).ok());
}

TEST_F(KeyRingFileTest, AFileThatCannotBeUsedIsLeftAsItIs) {
  for (const std::string& text : {std::string("keys {"), std::string()}) {
    Write(text);
    EXPECT_FALSE(GenerateKey(path_, {}, kNow).ok());
    EXPECT_EQ(Read(path_), text);
  }
  std::string full;
  for (std::uint32_t id = 1; id <= limits::kMaxKeyRingKeys; ++id) full += TestKey(id, kNow);
  Write(full);
  EXPECT_THAT(std::string(GenerateKey(path_, {}, kNow).status().message()),
              HasSubstr("has 32 keys, the largest number"));
  EXPECT_EQ(Read(path_), full);
}

TEST_F(KeyRingFileTest, TwoCommandsAtOnceLoseNoKey) {
  Write(TestKey(1, kNow));
  std::ofstream(path_ + ".new") << "the other one's";
  EXPECT_THAT(std::string(GenerateKey(path_, {}, kNow).status().message()),
              HasSubstr("another command adds a key, or one was interrupted"));
  EXPECT_EQ(Read(path_), TestKey(1, kNow));
  EXPECT_EQ(Read(path_ + ".new"), "the other one's");
}

TEST_F(KeyRingFileTest, EveryKeyOfCommandsAtOnceIsInTheFile) {
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    static_cast<void>(unlink(path_.c_str()));
    absl::StatusOr<std::uint32_t> other = absl::UnknownError("did not run");
    std::thread beside([&] {
      pthread_setname_np(pthread_self(), "beside");
      other = GenerateKey(path_, {}, kNow);
    });
    const absl::StatusOr<std::uint32_t> id = GenerateKey(path_, {}, kNow);
    beside.join();
    const auto ring = ReadKeyRingFile(path_);
    ASSERT_TRUE(ring.ok()) << ring.status();
    for (const auto& made : {id, other}) {
      const bool lost = made.ok() && (*ring)->Find(*made) == nullptr;
      ASSERT_FALSE(lost) << round;
    }
  }
}

TEST_F(KeyRingFileTest, TheDescriptionHasNoSecret) {
  Write(absl::StrCat(TestKey(1, kNow - absl::Hours(9)), TestKey(2, kNow - absl::Hours(1)),
                     TestKey(3, kNow + absl::Hours(1))));
  const std::string text = DescribeKeyRingFile(path_, kNow).value();
  EXPECT_THAT(text, HasSubstr("key 1: opens, sealed from 2025-12-31T15:00:00Z, check value "));
  EXPECT_THAT(text, HasSubstr("key 2: seals since 2025-12-31T23:00:00Z, check value "));
  EXPECT_THAT(text, HasSubstr("key 3: seals from 2026-01-01T01:00:00Z, check value "));
  const std::string file = Read(path_);
  const std::regex secret("secret: \"([^\"]+)\"");
  int secrets = 0;
  for (std::sregex_iterator it(file.begin(), file.end(), secret), end; it != end; ++it) {
    EXPECT_THAT(text, Not(HasSubstr((*it)[1].str())));
    ++secrets;
  }
  EXPECT_EQ(secrets, 3);
  Write(TestKey(3, kNow + absl::Hours(1)));
  EXPECT_THAT(DescribeKeyRingFile(path_, kNow).value(), HasSubstr("No key seals yet"));
}

}  // namespace
}  // namespace idempotency::internal
