#include "server/sealing/key_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "server/limits.h"
#include "server/testing/test_key_ring.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kStart = absl::FromUnixSeconds(1'767'225'600);
constexpr char kSecret[] = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";

std::string Key(const std::string& id, const std::string& secret,
                const std::string& created = "2026-01-01T00:00:00Z") {
  return absl::StrCat("keys { id: ", id, " secret: \"", secret, "\" created: \"", created, "\" }");
}

TEST(KeyRingTest, TheLatestKeyWhoseTimeHasComeSeals) {
  const auto ring =
      TestKeyRing(absl::StrCat(TestKey(7, kStart + absl::Hours(1)), TestKey(9, kStart),
                               TestKey(8, kStart + absl::Hours(2))));
  EXPECT_EQ(ring->SealsAt(kStart - absl::Seconds(1)), nullptr);
  EXPECT_EQ(ring->SealsAt(kStart)->id(), 9U);
  EXPECT_EQ(ring->SealsAt(kStart + absl::Hours(1) - absl::Nanoseconds(1))->id(), 9U);
  EXPECT_EQ(ring->SealsAt(kStart + absl::Hours(1))->id(), 7U);
  EXPECT_EQ(ring->SealsAt(kStart + absl::Hours(99))->id(), 8U);
  for (const std::uint32_t id : {7U, 8U, 9U}) EXPECT_EQ(ring->Find(id)->id(), id);
  EXPECT_EQ(ring->Find(1), nullptr);
}

TEST(KeyRingTest, OfTwoKeysWithOneTimeTheHigherIdSeals) {
  const auto ring = TestKeyRing(absl::StrCat(TestKey(5, kStart), TestKey(6, kStart)));
  EXPECT_EQ(ring->SealsAt(kStart)->id(), 6U);
}

TEST(KeyRingTest, AKeySealsFromItsCreationUnlessItSaysOtherwise) {
  const auto ring = KeyRing::Parse(absl::StrReplaceAll(
      Key("1", kSecret), {{"created", "seals_from: \"2026-02-01T00:00:00+01:00\" created"}}));
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ((*ring)->keys()[0]->created(), kStart);
  EXPECT_EQ((*ring)->keys()[0]->seals_from(), kStart + absl::Hours(31 * 24 - 1));
  EXPECT_EQ(TestKeyRing(Key("1", kSecret))->keys()[0]->seals_from(), kStart);
}

TEST(KeyRingTest, EveryUseHasAKeyOfItsOwn) {
  const auto ring = TestKeyRing(absl::StrCat(TestKey(1, kStart), TestKey(2, kStart)));
  std::set<Sha256Digest> signatures;
  for (const auto& key : ring->keys()) {
    for (const HmacKey* const use :
         {&key->replies(), &key->checkpoints(), &key->reply_digests(), &key->fingerprints()}) {
      signatures.insert(use->Sign({"text"}));
    }
  }
  EXPECT_EQ(signatures.size(), 8U);
}

TEST(KeyRingTest, NamesWhatIsWrongAndQuotesNothing) {
  const struct {
    std::string text;
    std::string wrong;
  } cases[] = {
      {"", "keys must be 1 to 32 keys"},
      {"keys {", "line 1, column 7: is not the text form"},
      {"\n\n  secret: SeCrEt", "line 3, column 9: is not the text form"},
      {absl::StrCat("keys { id: 1 secret: ", kSecret, " }"), "line 1, column 22"},
      {Key("0", kSecret), "keys[0].id must be 1 to 4294967295"},
      {Key("1", ""), "keys[0].secret must be 32 random bytes"},
      {Key("1", "SeCrEt"), "keys[0].secret must be 32 random bytes"},
      {Key("1", absl::StrCat(kSecret, kSecret)), "keys[0].secret must be 32 random bytes"},
      {Key("1", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), "is one byte repeated"},
      {Key("1", kSecret, ""), "keys[0].created must be a time in RFC 3339"},
      {Key("1", kSecret, "yesterday"), "keys[0].created must be a time in RFC 3339"},
      {absl::StrCat(TestKey(3, kStart), TestKey(4, kStart), TestKey(3, kStart, 5)),
       "keys[2].id is that of keys[0]"},
      {absl::StrCat(TestKey(3, kStart), TestKey(4, kStart, 3)),
       "keys[1].secret is that of keys[0]"},
  };
  for (const auto& [text, wrong] : cases) {
    const absl::Status status = KeyRing::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong)) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("SeCrEt")));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kSecret)));
  }
}

TEST(KeyRingTest, HasABound) {
  std::string text;
  for (std::uint32_t id = 1; id <= limits::kMaxKeyRingKeys; ++id) text += TestKey(id, kStart);
  EXPECT_TRUE(KeyRing::Parse(text).ok());
  EXPECT_THAT(std::string(KeyRing::Parse(text + TestKey(99, kStart)).status().message()),
              HasSubstr("1 to 32 keys"));
}

TEST(KeyRingTest, AnIdIsNeverAnotherSecret) {
  const auto before = TestKeyRing(absl::StrCat(TestKey(1, kStart), TestKey(2, kStart)));
  const auto added = TestKeyRing(absl::StrCat(TestKey(2, kStart), TestKey(3, kStart)));
  EXPECT_TRUE(added->CheckSuccessorOf(*before).ok());
  EXPECT_FALSE(added->IsSameAs(*before));
  EXPECT_TRUE(TestKeyRing(absl::StrCat(TestKey(2, kStart), TestKey(1, kStart)))->IsSameAs(*before));
  const auto other = TestKeyRing(absl::StrCat(TestKey(1, kStart), TestKey(2, kStart, 8)));
  EXPECT_FALSE(other->IsSameAs(*before));
  EXPECT_THAT(std::string(other->CheckSuccessorOf(*before).message()),
              HasSubstr("key 2 has another secret than before"));
}

}  // namespace
}  // namespace idempotency::internal
