#include "server/service/key_ring_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/testing/manual_clock.h"
#include "server/testing/test_key_ring.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Keeps the reported error of each reading of the file; "" if it was valid.
class WatchingObserver final : public Observer {
 public:
  void KeyRingRead(const absl::Status& status) override { read.emplace_back(status.message()); }
  void KeyRingUsed(const std::vector<std::uint32_t>& key_ids) override { used = key_ids; }
  std::vector<std::string> read;
  std::vector<std::uint32_t> used;
};

class KeyRingWatchTest : public ::testing::Test {
 protected:
  KeyRingWatchTest() {
    options_.key_ring = folder_.File("keyring");
    Write(TestKey(1, start_));
  }
  // As a program does that replaces a file: never half of it.
  void Write(const std::string& text) {
    const std::string beside = options_.key_ring + ".beside";
    std::ofstream(beside) << text;
    chmod(beside.c_str(), 0600);
    ASSERT_EQ(std::rename(beside.c_str(), options_.key_ring.c_str()), 0);
  }
  absl::StatusOr<std::unique_ptr<KeyRingWatch>> Start() {
    // The test reads the file itself.
    return KeyRingWatch::Start(options_, observer_, clock_, absl::Hours(24));
  }
  static std::uint32_t Sealing(const KeyRingWatch& watch, absl::Time now) {
    const std::shared_ptr<const KeyRing> ring = watch.rings()->Current();
    const SealingKey* const key = ring->SealsAt(now);
    return key == nullptr ? 0 : key->id();
  }

  testing::TempFolder folder_;
  ManualClock clock_;
  const absl::Time start_ = clock_.Now();
  SealingOptions options_;
  WatchingObserver observer_;
};

TEST_F(KeyRingWatchTest, ANewFileIsUsedFromItsNextReadingOn) {
  const auto watch = Start();
  ASSERT_TRUE(watch.ok()) << watch.status();
  Write(absl::StrCat(TestKey(1, start_), TestKey(2, start_ + absl::Hours(1))));
  (*watch)->Refresh();
  EXPECT_EQ(Sealing(**watch, start_), 1U);
  EXPECT_EQ(Sealing(**watch, start_ + absl::Hours(1)), 2U);
  EXPECT_THAT(observer_.read, ElementsAre("")) << "nothing became worse or better";
}

TEST_F(KeyRingWatchTest, TheObserverGetsTheKeysInUse) {
  const auto watch = Start();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_THAT(observer_.used, ElementsAre(1U));
  Write(absl::StrCat(TestKey(1, start_), TestKey(2, start_ + absl::Hours(1))));
  (*watch)->Refresh();
  EXPECT_THAT(observer_.used, UnorderedElementsAre(1U, 2U));
  // Lacks the key that seals.
  Write(TestKey(2, start_ + absl::Hours(1)));
  (*watch)->Refresh();
  EXPECT_THAT(observer_.used, UnorderedElementsAre(1U, 2U));
  clock_.Advance(absl::Hours(1));
  (*watch)->Refresh();
  EXPECT_THAT(observer_.used, ElementsAre(2U));
}

TEST_F(KeyRingWatchTest, ABadFileLeavesThePreviousRingAndIsReportedOnce) {
  const auto watch = Start();
  ASSERT_TRUE(watch.ok()) << watch.status();
  for (const std::string& bad :
       {std::string(), std::string("keys {"), TestKey(1, start_, /*seed=*/9),
        TestKey(2, start_ + absl::Hours(1))}) {
    observer_.read.clear();
    Write(bad);
    for (int i = 0; i < 3; ++i) (*watch)->Refresh();
    EXPECT_EQ(Sealing(**watch, start_), 1U) << bad;
    ASSERT_EQ(observer_.read.size(), 1U) << bad;
    EXPECT_THAT(observer_.read[0], HasSubstr(options_.key_ring));
  }
  observer_.read.clear();
  ASSERT_EQ(chmod(options_.key_ring.c_str(), 0644), 0);
  (*watch)->Refresh();
  std::remove(options_.key_ring.c_str());
  (*watch)->Refresh();
  Write(TestKey(1, start_));
  (*watch)->Refresh();
  EXPECT_THAT(observer_.read, ElementsAre(HasSubstr("chmod 600"), HasSubstr("cannot be read"), ""));
}

// Else one wrong file would store the next replies unsealed.
TEST_F(KeyRingWatchTest, ARingOfWhichNoKeySealsNeverReplacesOneThatSeals) {
  options_.accept_unsealed = true;
  const auto watch = Start();
  ASSERT_TRUE(watch.ok()) << watch.status();
  Write(TestKey(2, start_ + absl::Hours(1)));
  (*watch)->Refresh();
  EXPECT_EQ(Sealing(**watch, start_), 1U);
  EXPECT_THAT(observer_.read, ElementsAre("", HasSubstr("no key seals now, but one did")));
}

// An earlier copy of the file: what the removed key sealed could not be opened, and what the others
// of the copy seal is read by no replica that has the right one.
TEST_F(KeyRingWatchTest, ARingWithoutTheKeyThatSealsNeverReplacesOneThatHasIt) {
  const std::string right = absl::StrCat(TestKey(1, start_), TestKey(2, start_));
  const std::string new_key = TestKey(3, start_ + absl::Hours(1));
  Write(right);
  const auto watch = Start();
  ASSERT_TRUE(watch.ok()) << watch.status();
  for (const std::string& wrong :
       {TestKey(1, start_), absl::StrCat(TestKey(1, start_), new_key), TestKey(4, start_)}) {
    observer_.read.clear();
    Write(wrong);
    (*watch)->Refresh();
    EXPECT_EQ(Sealing(**watch, start_), 2U) << wrong;
    EXPECT_THAT(observer_.read, ElementsAre(HasSubstr("lacks key 2, which seals now"))) << wrong;
    Write(right);
    (*watch)->Refresh();
    EXPECT_THAT(observer_.read, ElementsAre(HasSubstr("key 2"), ""));
  }
  // A rotation removes earlier keys, and may remove one that has sealed nothing yet.
  Write(absl::StrCat(right, new_key));
  (*watch)->Refresh();
  Write(TestKey(2, start_));
  (*watch)->Refresh();
  EXPECT_EQ(watch.value()->rings()->Current()->keys().size(), 1U);
  EXPECT_EQ(Sealing(**watch, start_), 2U);
}

TEST_F(KeyRingWatchTest, WithoutAKeyThatSealsItStartsOnlyWhereUnsealedIsAccepted) {
  Write(TestKey(1, start_ + absl::Hours(1)));
  EXPECT_THAT(std::string(Start().status().message()),
              HasSubstr("no key seals yet, the first one from 2026-01-01T01:00:00Z on"));
  options_.accept_unsealed = true;
  const auto watch = Start();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_EQ(Sealing(**watch, start_), 0U);
}

TEST_F(KeyRingWatchTest, TheRingOutlivesTheWatch) {
  std::shared_ptr<const KeyRingSource> rings;
  {
    const auto watch = Start();
    ASSERT_TRUE(watch.ok()) << watch.status();
    rings = (*watch)->rings();
  }
  EXPECT_NE(rings->Current()->Find(1), nullptr);
}

// The thread reads it by itself.
TEST_F(KeyRingWatchTest, TheFileIsReadAgainWithoutBeingAsked) {
  const auto watch = KeyRingWatch::Start(options_, observer_, clock_, absl::Milliseconds(1));
  ASSERT_TRUE(watch.ok()) << watch.status();
  Write(absl::StrCat(TestKey(1, start_), TestKey(2, start_)));
  while (Sealing(**watch, start_) != 2) std::this_thread::yield();
}

}  // namespace
}  // namespace idempotency::internal
