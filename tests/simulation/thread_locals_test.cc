#include "tests/simulation/thread_locals.h"

#include <gtest/gtest.h>

namespace idempotency::internal::simulation {

// Of external linkage, so that the compiler does not assume that they keep their values across a
// call of Exchange().
thread_local int thread_locals_test_begins_with_7 = 7;
thread_local int thread_locals_test_begins_with_0;

namespace {

struct Seen {
  int seven = thread_locals_test_begins_with_7;
  int zero = thread_locals_test_begins_with_0;
};

TEST(ThreadLocals, OfAFiberBeginAsThoseOfAThreadAndAreItsOwn) {
  thread_locals_test_begins_with_7 = 1;
  thread_locals_test_begins_with_0 = 2;
  ThreadLocals fiber;

  fiber.Exchange();
  const Seen at_first;
  thread_locals_test_begins_with_7 = 3;
  thread_locals_test_begins_with_0 = 4;
  fiber.Exchange();
  const Seen of_the_thread;
  fiber.Exchange();
  const Seen when_it_goes_on;
  fiber.Exchange();

  EXPECT_EQ(at_first.seven, 7);
  EXPECT_EQ(at_first.zero, 0);
  EXPECT_EQ(of_the_thread.seven, 1);
  EXPECT_EQ(of_the_thread.zero, 2);
  EXPECT_EQ(when_it_goes_on.seven, 3);
  EXPECT_EQ(when_it_goes_on.zero, 4);
}

TEST(ThreadLocals, OfTwoFibersAreApart) {
  ThreadLocals one;
  ThreadLocals other;
  one.Exchange();
  thread_locals_test_begins_with_7 = 5;
  one.Exchange();
  other.Exchange();
  const Seen of_the_other;
  other.Exchange();
  one.Exchange();
  const Seen of_the_one;
  one.Exchange();
  EXPECT_EQ(of_the_other.seven, 7);
  EXPECT_EQ(of_the_one.seven, 5);
}

}  // namespace
}  // namespace idempotency::internal::simulation
