#include "core/after_answers.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

namespace idempotency::internal {
namespace {

TEST(AfterAnswersTest, OutsideOfAScopeNothingIsKept) {
  absl::AnyInvocable<void()> work = [] { ADD_FAILURE(); };
  EXPECT_FALSE(AfterAnswers::Keep(work));
  EXPECT_NE(work, nullptr);
}

TEST(AfterAnswersTest, WorkIsDoneAtTheEndOfTheOutermostScope) {
  std::string order;
  {
    const AfterAnswers outer;
    {
      const AfterAnswers inner;
      absl::AnyInvocable<void()> work = [&order] { order += "work"; };
      EXPECT_TRUE(AfterAnswers::Keep(work));
      order += "answers ";
    }
    order += "more ";
  }
  EXPECT_EQ(order, "answers more work");
}

TEST(AfterAnswersTest, AProcessKeepsOneWorkAtATime) {
  const auto refused = [] {
    const AfterAnswers scope;
    absl::AnyInvocable<void()> work = [] { ADD_FAILURE(); };
    return !AfterAnswers::Keep(work);
  };
  bool while_kept = false;
  bool while_done = false;
  {
    const AfterAnswers scope;
    absl::AnyInvocable<void()> work = [&] {
      while_done = std::async(std::launch::async, refused).get();
    };
    ASSERT_TRUE(AfterAnswers::Keep(work));
    while_kept = std::async(std::launch::async, refused).get();
  }
  EXPECT_TRUE(while_kept);
  EXPECT_TRUE(while_done);
  EXPECT_FALSE(std::async(std::launch::async, [] {
                 const AfterAnswers scope;
                 absl::AnyInvocable<void()> work = [] {};
                 return !AfterAnswers::Keep(work);
               }).get());
}

TEST(AfterAnswersTest, WorkKeepsNoWorkInItsOwnScope) {
  bool kept = true;
  {
    const AfterAnswers scope;
    absl::AnyInvocable<void()> work = [&kept] {
      absl::AnyInvocable<void()> next = [] { ADD_FAILURE(); };
      kept = AfterAnswers::Keep(next);
    };
    ASSERT_TRUE(AfterAnswers::Keep(work));
  }
  EXPECT_FALSE(kept);
}

}  // namespace
}  // namespace idempotency::internal
