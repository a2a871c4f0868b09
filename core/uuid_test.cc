#include "grpc_idempotency/uuid.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "absl/hash/hash_testing.h"

namespace idempotency::internal {
namespace {

// The example of RFC 9562, appendix A.6.
constexpr std::string_view kVersion7 = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
constexpr std::int64_t kVersion7Millis = 0x017F22E279B0;

TEST(UuidTest, ParsesEitherCaseAndPrintsLowerCase) {
  const std::optional<Uuid> uuid = Uuid::Parse("017F22E2-79b0-7CC3-98C4-dc0c0c07398f");
  ASSERT_TRUE(uuid.has_value());
  EXPECT_EQ(uuid->ToString(), kVersion7);
  EXPECT_EQ(uuid->bytes()[0], 0x01);
  EXPECT_EQ(uuid->bytes()[15], 0x8F);
}

TEST(UuidTest, RefusesAnyOtherForm) {
  for (const std::string_view text : {
           "",
           "017f22e279b07cc398c4dc0c0c07398f",
           "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
           "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
           "017f22e2-79b0-7cc3-98c4-dc0c0c07398ff",
           "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
           "017f22e2+79b0-7cc3-98c4-dc0c0c07398f",
           "017f22e27-9b0-7cc3-98c4-dc0c0c07398f",
       }) {
    EXPECT_FALSE(Uuid::Parse(text).has_value()) << text;
  }
}

TEST(UuidTest, EveryDigitIsJudged) {
  for (std::size_t at = 0; at < kVersion7.size(); ++at) {
    std::string text(kVersion7);
    text[at] = 'g';
    EXPECT_FALSE(Uuid::Parse(text).has_value()) << text;
  }
}

TEST(UuidTest, RandomIsVersion4AndNeverTheSame) {
  std::set<Uuid> seen;
  for (int i = 0; i < 1000; ++i) {
    const Uuid uuid = Uuid::Random();
    EXPECT_EQ(uuid.bytes()[6] >> 4, 4);
    EXPECT_EQ(uuid.bytes()[8] >> 6, 2);
    EXPECT_TRUE(seen.insert(uuid).second);
    EXPECT_FALSE(uuid.TimeOrderedAt().has_value());
  }
}

TEST(UuidTest, ThreadsNeverDrawTheSame) {
  constexpr std::size_t kThreads = 4;
  std::array<std::vector<Uuid>, kThreads> drawn;
  std::vector<std::thread> threads;
  for (std::vector<Uuid>& own : drawn) {
    threads.emplace_back([&own] {
      for (int i = 0; i < 100; ++i) own.push_back(Uuid::Random());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<Uuid> seen;
  for (const std::vector<Uuid>& own : drawn) seen.insert(own.begin(), own.end());
  EXPECT_EQ(seen.size(), kThreads * 100);
}

// The child inherits the memory from which its parent draws.
TEST(UuidTest, AChildNeverDrawsWhatItsParentDraws) {
  Uuid::Random();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Uuid::Bytes bytes = Uuid::Random().bytes();
    _exit(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) ? 0 : 1);
  }
  Uuid::Bytes bytes{};
  EXPECT_EQ(read(ends[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  for (int i = 0; i < 100; ++i) EXPECT_NE(Uuid::Random(), Uuid(bytes));
}

TEST(UuidTest, TimeOrderedContainsItsTime) {
  const absl::Time now = absl::FromUnixMillis(kVersion7Millis) + absl::Microseconds(999);
  const Uuid uuid = Uuid::TimeOrdered(now);
  EXPECT_EQ(uuid.ToString().substr(0, 15), kVersion7.substr(0, 15));
  EXPECT_EQ(uuid.bytes()[8] >> 6, 2);
  EXPECT_EQ(uuid.TimeOrderedAt(), absl::FromUnixMillis(kVersion7Millis));
  EXPECT_NE(uuid, Uuid::TimeOrdered(now));
  EXPECT_LT(uuid, Uuid::TimeOrdered(now + absl::Milliseconds(1)));
}

TEST(UuidTest, TimeOrderedKeepsToItsRange) {
  EXPECT_EQ(Uuid::TimeOrdered(absl::InfinitePast()).TimeOrderedAt(), absl::UnixEpoch());
  EXPECT_EQ(Uuid::TimeOrdered(absl::InfiniteFuture()).TimeOrderedAt(),
            absl::FromUnixMillis((std::int64_t{1} << 48) - 1));
}

TEST(UuidTest, OnlyVersion7OfTheRightVariantHasATime) {
  EXPECT_EQ(Uuid::Parse(kVersion7)->TimeOrderedAt(), absl::FromUnixMillis(kVersion7Millis));
  EXPECT_FALSE(Uuid::Parse("017f22e2-79b0-6cc3-98c4-dc0c0c07398f")->TimeOrderedAt().has_value());
  EXPECT_FALSE(Uuid::Parse("017f22e2-79b0-7cc3-d8c4-dc0c0c07398f")->TimeOrderedAt().has_value());
}

TEST(UuidTest, NilAndHash) {
  EXPECT_TRUE(Uuid().is_nil());
  EXPECT_EQ(Uuid().ToString(), "00000000-0000-0000-0000-000000000000");
  EXPECT_FALSE(Uuid::Parse(kVersion7)->is_nil());
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Uuid(), *Uuid::Parse(kVersion7), Uuid::Random()}));
}

}  // namespace
}  // namespace idempotency::internal
