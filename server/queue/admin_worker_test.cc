#include "server/queue/admin_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "server/limits.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = AdminPlace::Kind;

constexpr std::size_t kReads = limits::kMaxAdminCalls - limits::kReservedAdminCalls;

class AdminWorkerTest : public ::testing::Test {
 protected:
  ~AdminWorkerTest() override { Open(); }

  // Calls stay until Open(), the first of them on the worker.
  bool Take(Kind kind, const std::string& owner) {
    return worker_.TryRun({kind, owner}, [this, owner] {
      MutexLock lock(mutex_);
      ++begun_;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(lock);
      ran_.push_back(owner);
    });
  }
  // As many as `owner` gets.
  std::size_t TakeAll(Kind kind, const std::string& owner) {
    std::size_t taken = 0;
    while (Take(kind, owner)) ++taken;
    return taken;
  }
  // Until the first call runs.
  void AwaitBegun() {
    MutexLock lock(mutex_);
    while (begun_ == 0) changed_.Wait(lock);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  // What ran, in order.
  std::vector<std::string> Finish() {
    Open();
    worker_.Close();
    MutexLock lock(mutex_);
    return ran_;
  }

  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> ran_ ABSL_GUARDED_BY(mutex_);
  AdminWorker worker_;
};

TEST_F(AdminWorkerTest, OneOwnerTakesHalf) {
  EXPECT_EQ(TakeAll(Kind::kRead, "payments"), kReads / 2);
  EXPECT_EQ(TakeAll(Kind::kRead, "orders"), kReads / 4);
  EXPECT_TRUE(Take(Kind::kRead, "third"));
}

TEST_F(AdminWorkerTest, ReadsOfManyOwnersLeavePlacesForActs) {
  std::size_t reads = 0;
  while (Take(Kind::kRead, absl::StrCat("owner-", reads))) ++reads;
  EXPECT_EQ(reads, kReads);
  std::size_t acts = 0;
  while (Take(Kind::kAct, absl::StrCat("owner-", acts))) ++acts;
  EXPECT_EQ(acts, limits::kReservedAdminCalls);
}

// Those who may read in a namespace do not keep its administrators out.
TEST_F(AdminWorkerTest, ReadsAreNoPartOfTheShareOfActs) {
  TakeAll(Kind::kRead, "payments");
  TakeAll(Kind::kRead, "orders");
  EXPECT_TRUE(Take(Kind::kAct, "payments"));
}

TEST_F(AdminWorkerTest, ActsOfOneOwnerLeavePlacesForTheOthers) {
  EXPECT_EQ(TakeAll(Kind::kAct, "payments"), limits::kMaxAdminCalls / 2);
  EXPECT_TRUE(Take(Kind::kAct, "orders"));
  EXPECT_TRUE(Take(Kind::kRead, "orders"));
}

TEST_F(AdminWorkerTest, ActsAndReadsTakeTurns) {
  ASSERT_TRUE(Take(Kind::kRead, "first"));
  AwaitBegun();
  for (const char* const owner : {"read-1", "read-2", "read-3"}) {
    ASSERT_TRUE(Take(Kind::kRead, owner));
  }
  for (const char* const owner : {"act-1", "act-2"}) ASSERT_TRUE(Take(Kind::kAct, owner));
  EXPECT_THAT(Finish(), ElementsAre("first", "act-1", "read-1", "act-2", "read-2", "read-3"));
}

TEST_F(AdminWorkerTest, ACallThatRanLeavesItsPlace) {
  Open();
  for (std::size_t i = 0; i < 4 * limits::kMaxAdminCalls; ++i) {
    while (!Take(Kind::kRead, "payments")) {
    }
  }
  EXPECT_EQ(Finish().size(), 4 * limits::kMaxAdminCalls);
}

TEST_F(AdminWorkerTest, NothingRunsAfterClose) {
  EXPECT_THAT(Finish(), IsEmpty());
  EXPECT_FALSE(Take(Kind::kAct, "payments"));
}

}  // namespace
}  // namespace idempotency::internal
