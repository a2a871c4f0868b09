#include "interceptors/server/connection/replay_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kMaxAge = absl::Seconds(10);
constexpr std::size_t kMiB = 1024 * 1024;

v1::RecordKey Key(const std::string& key) {
  v1::RecordKey record_key;
  record_key.set_namespace_("payments");
  record_key.set_scope("tenant-42");
  record_key.set_operation("/payments.v1.Payments/Charge");
  record_key.set_key(key);
  return record_key;
}

ReplayCache::Fingerprints Prints(const std::vector<std::pair<int, char>>& versions) {
  ReplayCache::Fingerprints fingerprints;
  for (const auto& [version, digest] : versions) {
    v1::Fingerprint& fingerprint = *fingerprints.Add();
    fingerprint.set_version(version);
    fingerprint.set_digest(std::string(32, digest));
  }
  return fingerprints;
}

void Set(google::protobuf::Timestamp& timestamp, absl::Time time) {
  timestamp.set_seconds(absl::ToUnixSeconds(time));
}

// An answer whose request's key is chosen when it is stored.
struct TestAnswer {
  ReplayCache::Fingerprints fingerprints;
  v1::ReserveResponse response;
};

void KeepIn(ReplayCache& cache, const v1::RecordKey& key, const TestAnswer& answer,
            ReplayCache::Moment sent_at) {
  cache.Keep(ReservedRequest(key, answer.fingerprints),
             std::make_shared<const v1::ReserveResponse>(answer.response), sent_at);
}

class ReplayCacheTest : public testing::Test {
 protected:
  explicit ReplayCacheTest(std::size_t capacity_bytes = kMiB, std::size_t hash_mask = ~0ULL)
      : cache_({capacity_bytes, kMaxAge}, clock_, hash_mask) {}

  // A replay whose record is kept for a day, by a store with the guard's time.
  TestAnswer Replay(std::size_t body_bytes = 100) const {
    TestAnswer answer;
    answer.fingerprints = Prints({{1, 'a'}});
    answer.response.set_record_id("01890a5d-ac96-774b-bcce-b302099a8057");
    v1::Replay& replay = *answer.response.mutable_replay();
    replay.mutable_reply()->set_body(std::string(body_bytes, 'b'));
    replay.set_attempt(3);
    Set(*replay.mutable_completed_at(), clock_.Now());
    Set(*replay.mutable_expires_at(), clock_.Now() + absl::Hours(24));
    return answer;
  }
  void Keep(const std::string& key, const TestAnswer& answer) {
    KeepIn(cache_, Key(key), answer, cache_.Now());
  }
  bool Has(const v1::RecordKey& key) {
    return cache_.FindReplay(key, Prints({{1, 'a'}})) != nullptr;
  }
  bool Has(const std::string& key) { return Has(Key(key)); }
  // The growth of the cache.
  std::size_t WeightOf(const v1::RecordKey& key, const TestAnswer& answer) {
    const std::size_t before = cache_.counters().bytes;
    KeepIn(cache_, key, answer, cache_.Now());
    return cache_.counters().bytes - before;
  }

  ManualClock clock_;
  ReplayCache cache_;
};

TEST_F(ReplayCacheTest, GivesTheAnswerAgainAsItWas) {
  EXPECT_FALSE(Has("order-1"));
  const TestAnswer answer = Replay();
  Keep("order-1", answer);
  const auto found = cache_.FindReplay(Key("order-1"), Prints({{1, 'a'}}));
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*found, answer.response));
}

TEST_F(ReplayCacheTest, PartsThatReadTheSameInARowAreDifferentKeys) {
  v1::RecordKey one = Key("23");
  one.set_scope("1");
  v1::RecordKey other = Key("3");
  other.set_scope("12");
  KeepIn(cache_, one, Replay(), cache_.Now());
  EXPECT_TRUE(Has(one));
  EXPECT_FALSE(Has(other));
}

// The store must answer every other request: it may have a version that differs.
TEST_F(ReplayCacheTest, OnlyTheSameFingerprintsAreAnswered) {
  TestAnswer answer = Replay();
  answer.fingerprints = Prints({{1, 'a'}, {2, 'b'}});
  Keep("order-1", answer);
  const auto has = [&](const std::vector<std::pair<int, char>>& versions) {
    return cache_.FindReplay(Key("order-1"), Prints(versions)) != nullptr;
  };
  EXPECT_TRUE(has({{1, 'a'}, {2, 'b'}}));
  EXPECT_FALSE(has({}));
  EXPECT_FALSE(has({{1, 'x'}, {2, 'b'}}));
  EXPECT_FALSE(has({{1, 'a'}, {2, 'x'}}));
  EXPECT_FALSE(has({{1, 'x'}}));
  EXPECT_FALSE(has({{3, 'a'}}));
  EXPECT_FALSE(has({{1, 'a'}}));
  EXPECT_FALSE(has({{1, 'a'}, {2, 'b'}, {3, 'c'}}));
  EXPECT_FALSE(has({{2, 'a'}, {1, 'b'}}));
}

TEST_F(ReplayCacheTest, MaxAgeCountsFromTheQuestion) {
  const ReplayCache::Moment sent_at = cache_.Now();
  clock_.Advance(absl::Seconds(4));
  KeepIn(cache_, Key("order-1"), Replay(), sent_at);
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(Has("order-1"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Has("order-1"));
  EXPECT_EQ(cache_.counters().entries, 0u);
}

TEST_F(ReplayCacheTest, GivingItAgainDoesNotLengthenItsLife) {
  Keep("order-1", Replay());
  for (int i = 0; i < 9; ++i) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(Has("order-1"));
  }
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, AnAnswerThatCameTooLateIsNotKept) {
  const ReplayCache::Moment sent_at = cache_.Now();
  clock_.Advance(kMaxAge);
  KeepIn(cache_, Key("order-1"), Replay(), sent_at);
  EXPECT_EQ(cache_.counters().entries, 0u);
}

TEST_F(ReplayCacheTest, EndsWithItsRecord) {
  TestAnswer answer = Replay();
  // Completed yesterday: only the wall clock shows the remaining time.
  Set(*answer.response.mutable_replay()->mutable_completed_at(), clock_.Now() - absl::Hours(24));
  Set(*answer.response.mutable_replay()->mutable_expires_at(), clock_.Now() + absl::Seconds(3));
  Keep("order-1", answer);
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Has("order-1"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, AGuardWhoseClockIsBehindKeepsItNoLongerThanTheRecordCanLive) {
  Keep("short", [&] {
    TestAnswer answer = Replay();
    Set(*answer.response.mutable_replay()->mutable_expires_at(), clock_.Now() + absl::Seconds(3));
    return answer;
  }());
  Keep("long", Replay());
  clock_.StepWall(-absl::Hours(1000));
  clock_.AdvanceMonotonic(absl::Seconds(3));
  EXPECT_FALSE(Has("short"));
  EXPECT_TRUE(Has("long"));
  clock_.AdvanceMonotonic(kMaxAge - absl::Seconds(3));
  EXPECT_FALSE(Has("long"));
}

TEST_F(ReplayCacheTest, TimeThatPassedWhileTheMachineSleptCounts) {
  Keep("order-1", Replay());
  clock_.StepWall(kMaxAge);
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, TheAnswerRequestedLaterStays) {
  const ReplayCache::Moment before = cache_.Now();
  clock_.Advance(absl::Seconds(1));
  Keep("order-1", Replay(200));
  KeepIn(cache_, Key("order-1"), Replay(100), before);
  const auto found = cache_.FindReplay(Key("order-1"), Prints({{1, 'a'}}));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->replay().reply().body().size(), 200u);
}

TEST_F(ReplayCacheTest, DroppingForgetsOneReplay) {
  Keep("order-1", Replay());
  Keep("order-2", Replay());
  cache_.Drop(Key("order-1"));
  cache_.Drop(Key("order-3"));
  EXPECT_FALSE(Has("order-1"));
  EXPECT_TRUE(Has("order-2"));
  EXPECT_EQ(cache_.counters().entries, 1u);
}

TEST_F(ReplayCacheTest, AReplyOverItsShareIsNotKept) {
  Keep("fits", Replay(cache_.max_entry_bytes() - 2048));
  EXPECT_TRUE(Has("fits"));
  Keep("too-large", Replay(cache_.max_entry_bytes()));
  EXPECT_FALSE(Has("too-large"));
  EXPECT_TRUE(Has("fits"));
  EXPECT_EQ(cache_.counters().evictions, 0u);
}

TEST_F(ReplayCacheTest, NeverWeighsMoreThanItsCapacity) {
  for (int i = 0; i < 300; ++i) {
    Keep(absl::StrCat("order-", i), Replay(8 * 1024));
    const ReplayCacheCounters counters = cache_.counters();
    ASSERT_LE(counters.bytes, kMiB);
    ASSERT_GE(counters.bytes, counters.entries * 8 * 1024);
  }
  const ReplayCacheCounters counters = cache_.counters();
  EXPECT_GT(counters.entries, 100u);
  EXPECT_EQ(counters.entries + counters.evictions, 300u);
  EXPECT_TRUE(Has("order-299"));
  EXPECT_FALSE(Has("order-0"));
}

TEST_F(ReplayCacheTest, KeysAndFingerprintsAndEntriesWeighToo) {
  Keep("order-1", Replay(0));
  const std::size_t small = cache_.counters().bytes;
  EXPECT_GT(small, sizeof(v1::ReserveResponse) + sizeof(v1::Replay));
  v1::RecordKey key = Key(std::string(255, 'k'));
  key.set_operation(std::string(512, 'o'));
  TestAnswer answer = Replay(0);
  answer.fingerprints = Prints({{1, 'a'}, {2, 'a'}, {3, 'a'}, {4, 'a'}});
  KeepIn(cache_, key, answer, cache_.Now());
  EXPECT_GT(cache_.counters().bytes, 2 * small + 255 + 512 - 100 + 3 * 32);
}

TEST_F(ReplayCacheTest, EachPartOfTheKeyAndTheFingerprintsWeighTheirLength) {
  constexpr std::size_t kLong = 4096;
  std::vector<v1::RecordKey> keys(5, Key("order-1"));
  keys[1].set_namespace_(std::string(kLong, 'n'));
  keys[2].set_scope(std::string(kLong, 's'));
  keys[3].set_operation(std::string(kLong, 'o'));
  keys[4].set_key(std::string(kLong, 'k'));
  const std::size_t with_short_parts = WeightOf(keys[0], Replay());
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const std::size_t weight = WeightOf(keys[i], Replay());
    EXPECT_GE(weight, with_short_parts + kLong - 64) << i;
    EXPECT_LE(weight, with_short_parts + kLong + 64) << i;
  }
  TestAnswer answer = Replay();
  answer.fingerprints[0].set_digest(std::string(kLong, 'd'));
  EXPECT_GE(WeightOf(Key("order-2"), answer), with_short_parts + kLong - 64);
}

// Otherwise a cache of small replies takes a multiple of its capacity, or uses little of it.
TEST_F(ReplayCacheTest, WhatTheCacheAddsToAnEntryWeighsToo) {
  const TestAnswer answer = Replay(0);
  v1::RecordKey key = Key(std::string(32, 'k'));
  key.set_namespace_(std::string(32, 'n'));
  key.set_scope(std::string(32, 's'));
  key.set_operation(std::string(32, 'o'));
  // The parts of the key, and the digest.
  const std::size_t content = answer.response.SpaceUsedLong() + 5 * 32;
  const std::size_t added = WeightOf(key, answer) - content;
  // The links of a list, a slot of a table, two shared pointers and their counts.
  constexpr std::size_t kLeastLinks = 9 * sizeof(void*);
  constexpr std::size_t kLeast =
      sizeof(ReservedRequest) + 2 * sizeof(ReplayCache::Moment) + kLeastLinks;
  EXPECT_GT(added, kLeast);
  EXPECT_LT(added, kLeast + 256);
}

TEST_F(ReplayCacheTest, WeighsNothingWhenAllIsForgotten) {
  for (int i = 0; i < 50; ++i) Keep(absl::StrCat("order-", i), Replay(8 * 1024));
  for (int i = 0; i < 25; ++i) EXPECT_TRUE(Has(absl::StrCat("order-", i)));
  for (int i = 0; i < 50; ++i) cache_.Drop(Key(absl::StrCat("order-", i)));
  EXPECT_EQ(cache_.counters().entries, 0u);
  EXPECT_EQ(cache_.counters().bytes, 0u);
}

TEST_F(ReplayCacheTest, WhatWasRetriedOutlastsWhatWasNot) {
  Keep("retried", Replay(8 * 1024));
  Keep("not-retried", Replay(8 * 1024));
  EXPECT_TRUE(Has("retried"));
  // Several times the capacity of operations that no client retries.
  for (int i = 0; i < 500; ++i) Keep(absl::StrCat("order-", i), Replay(8 * 1024));
  EXPECT_TRUE(Has("retried"));
  EXPECT_FALSE(Has("not-retried"));
}

TEST_F(ReplayCacheTest, WhatWasRetriedLongestAgoMakesRoomForMoreThatIs) {
  // All of them are retried, and together they are twice the capacity.
  for (int i = 0; i < 250; ++i) {
    const std::string key = absl::StrCat("order-", i);
    Keep(key, Replay(8 * 1024));
    ASSERT_TRUE(Has(key));
    ASSERT_TRUE(Has("order-0")) << i;
  }
  EXPECT_FALSE(Has("order-1"));
  EXPECT_TRUE(Has("order-249"));
}

TEST_F(ReplayCacheTest, WhatWasRetriedAgainOutlastsWhatWasRetriedOnce) {
  Keep("often", Replay(8 * 1024));
  ASSERT_TRUE(Has("often"));
  // Protected after it, with room to spare.
  for (int i = 0; i < 60; ++i) {
    Keep(absl::StrCat("once-", i), Replay(8 * 1024));
    ASSERT_TRUE(Has(absl::StrCat("once-", i)));
  }
  ASSERT_TRUE(Has("often"));
  // The entries that were given again once must be evicted.
  for (int i = 60; i < 120; ++i) {
    Keep(absl::StrCat("once-", i), Replay(8 * 1024));
    ASSERT_TRUE(Has(absl::StrCat("once-", i)));
  }
  for (int i = 0; i < 500; ++i) Keep(absl::StrCat("never-", i), Replay(8 * 1024));
  EXPECT_TRUE(Has("often"));
  EXPECT_FALSE(Has("once-0"));
}

TEST_F(ReplayCacheTest, WhatFitsExactlyIsHeldAndFourFifthsOfItProtected) {
  const TestAnswer answer = Replay(8 * 1024);
  const std::size_t weight = WeightOf(Key("a"), answer);
  ReplayCache cache({5 * weight, kMaxAge}, clock_);
  const auto keep = [&](const char* key) { KeepIn(cache, Key(key), answer, cache.Now()); };
  const auto has = [&](const char* key) {
    return cache.FindReplay(Key(key), Prints({{1, 'a'}})) != nullptr;
  };
  for (const char* key : {"a", "b", "c", "d", "e"}) keep(key);
  EXPECT_EQ(cache.counters().evictions, 0u);
  EXPECT_EQ(cache.counters().bytes, 5 * weight);
  for (const char* key : {"a", "b", "c", "d"}) EXPECT_TRUE(has(key)) << key;
  for (const char* key : {"f", "g", "h", "i", "j"}) keep(key);
  for (const char* key : {"a", "b", "c", "d", "j"}) EXPECT_TRUE(has(key)) << key;
}

// An entry that is evicted without having been given again takes nothing from the share either.
TEST_F(ReplayCacheTest, WhatWasNeverRetriedLeavesTheShareOfTheProtectedAsItWas) {
  for (int i = 0; i < 500; ++i) Keep(absl::StrCat("never-", i), Replay(8 * 1024));
  for (int i = 0; i < 250; ++i) {
    const std::string key = absl::StrCat("once-", i);
    Keep(key, Replay(8 * 1024));
    ASSERT_TRUE(Has(key));
  }
  for (int i = 0; i < 10; ++i) Keep(absl::StrCat("new-", i), Replay(8 * 1024));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Has(absl::StrCat("new-", i))) << i;
  EXPECT_TRUE(Has("once-200"));
}

TEST_F(ReplayCacheTest, OneOverTheCapacityCostsOne) {
  const std::size_t weight = WeightOf(Key("a"), Replay(8 * 1024));
  const std::size_t fits = kMiB / weight;
  for (std::size_t i = 1; i <= fits; ++i) {
    Keep(std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i), Replay(8 * 1024));
  }
  EXPECT_EQ(cache_.counters().evictions, 1u);
  EXPECT_EQ(cache_.counters().entries, fits);
}

TEST_F(ReplayCacheTest, WhatIsOverMakesRoomBeforeWhatIsNot) {
  for (int i = 0; i < 100; ++i) {
    Keep(absl::StrCat("old-", i), Replay(8 * 1024));
    ASSERT_TRUE(Has(absl::StrCat("old-", i)));
  }
  clock_.Advance(kMaxAge);
  for (int i = 0; i < 100; ++i) Keep(absl::StrCat("new-", i), Replay(8 * 1024));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Has(absl::StrCat("new-", i))) << i;
  EXPECT_EQ(cache_.counters().entries, 100u);
  EXPECT_EQ(cache_.counters().evictions, 0u);
}

TEST_F(ReplayCacheTest, CountsHitsAndMisses) {
  Keep("order-1", Replay());
  EXPECT_TRUE(Has("order-1"));
  EXPECT_TRUE(Has("order-1"));
  EXPECT_FALSE(Has("order-2"));
  EXPECT_EQ(cache_.counters().hits, 2u);
  EXPECT_EQ(cache_.counters().misses, 1u);
}

TEST_F(ReplayCacheTest, WhatWasRetriedLeavesRoomForWhatIsNew) {
  for (int i = 0; i < 250; ++i) {
    const std::string key = absl::StrCat("order-", i);
    Keep(key, Replay(8 * 1024));
    ASSERT_TRUE(Has(key));
  }
  for (int i = 0; i < 10; ++i) Keep(absl::StrCat("new-", i), Replay(8 * 1024));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Has(absl::StrCat("new-", i))) << i;
}

TEST_F(ReplayCacheTest, WhatWasDroppedTakesNoShareOfTheProtected) {
  for (int i = 0; i < 250; ++i) {
    const std::string key = absl::StrCat("dropped-", i);
    Keep(key, Replay(8 * 1024));
    ASSERT_TRUE(Has(key));
    cache_.Drop(Key(key));
  }
  Keep("retried", Replay(8 * 1024));
  EXPECT_TRUE(Has("retried"));
  for (int i = 0; i < 500; ++i) Keep(absl::StrCat("order-", i), Replay(8 * 1024));
  EXPECT_TRUE(Has("retried"));
}

class CollidingReplayCacheTest : public ReplayCacheTest {
 protected:
  CollidingReplayCacheTest() : ReplayCacheTest(kMiB, /*hash_mask=*/0) {}
};

TEST_F(CollidingReplayCacheTest, EachPartOfTheKeyIsCompared) {
  std::vector<v1::RecordKey> keys(5, Key("order-1"));
  keys[1].set_namespace_("other");
  keys[2].set_scope("other");
  keys[3].set_operation("other");
  keys[4].set_key("other");
  Keep("order-1", Replay());
  for (std::size_t i = 1; i < keys.size(); ++i) {
    EXPECT_FALSE(Has(keys[i])) << keys[i].ShortDebugString();
    cache_.Drop(keys[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    TestAnswer answer = Replay();
    answer.response.set_record_id(absl::StrCat(i));
    KeepIn(cache_, keys[i], answer, cache_.Now());
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = cache_.FindReplay(keys[i], Prints({{1, 'a'}}));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->record_id(), absl::StrCat(i));
  }
}

class LargeReplayCacheTest : public ReplayCacheTest {
 protected:
  LargeReplayCacheTest() : ReplayCacheTest(64 * kMiB) {}
};

TEST_F(LargeReplayCacheTest, TakesRepliesOfAMegabyteAndKeepsToItsCapacityInAllShards) {
  EXPECT_EQ(cache_.max_entry_bytes(), kMiB);
  for (int i = 0; i < 200; ++i) Keep(absl::StrCat("order-", i), Replay(kMiB - 4096));
  const ReplayCacheCounters counters = cache_.counters();
  EXPECT_LE(counters.bytes, 64 * kMiB);
  // The keys are spread well enough to fill most of it.
  EXPECT_GT(counters.bytes, 40 * kMiB);
}

// As ReplayCacheOptions promises.
TEST_F(ReplayCacheTest, OneReplyMayTakeAMegabyteAQuarterOfLessOrA64thOfMore) {
  const auto max_entry_bytes = [&](std::size_t capacity_bytes) {
    return ReplayCache({capacity_bytes, kMaxAge}, clock_).max_entry_bytes();
  };
  EXPECT_EQ(max_entry_bytes(kMiB), kMiB / 4);
  EXPECT_EQ(max_entry_bytes(4 * kMiB), kMiB);
  EXPECT_EQ(max_entry_bytes(8 * kMiB), kMiB);
  EXPECT_EQ(max_entry_bytes(64 * kMiB), kMiB);
  EXPECT_EQ(max_entry_bytes(1024 * kMiB), 16 * kMiB);
}

TEST_F(ReplayCacheTest, AReplyOfExactlyItsShareIsKept) {
  const std::size_t share = cache_.max_entry_bytes();
  const std::size_t added = WeightOf(Key("a"), Replay(share - 4096)) - (share - 4096);
  EXPECT_EQ(WeightOf(Key("b"), Replay(share - added)), share);
  EXPECT_EQ(WeightOf(Key("c"), Replay(share - added + 1)), 0u);
}

// Threads that keep, find, drop and count under pressure: an answer found is
// always the key's own and whole, also when it is evicted meanwhile.
TEST_F(ReplayCacheTest, ThreadsSeeOnlyWholeAnswersOfTheirOwnKey) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 1000;
  constexpr int kKeys = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kRounds; ++i) {
        const std::string key = absl::StrCat("order-", (i * 7 + t * 13) % kKeys);
        TestAnswer answer = Replay(8 * 1024);
        answer.response.set_record_id(key);
        if (i % 3 != 0) KeepIn(cache_, Key(key), answer, cache_.Now());
        const auto found = cache_.FindReplay(Key(key), Prints({{1, 'a'}}));
        if (found != nullptr) {
          ASSERT_EQ(found->record_id(), key);
          ASSERT_EQ(found->replay().reply().body().size(), 8u * 1024);
        }
        if (i % 50 == 0) cache_.Drop(Key(key));
        if (i % 100 == 0) clock_.Advance(absl::Seconds(1));
        ASSERT_LE(cache_.counters().bytes, kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache_.counters().hits, 0u);
  EXPECT_GT(cache_.counters().evictions, 0u);
}

}  // namespace
}  // namespace idempotency::internal
