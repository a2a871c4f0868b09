#ifndef IDEMPOTENCY_TESTS_SUPPORT_SUBREAPER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SUBREAPER_H_

namespace idempotency::internal::testing {

// Makes three processes of this one, for a test that starts others: the original one, which waits;
// below it a subreaper, to which the kernel gives every descendant whose parent has ended; and
// below that the one that continues, in which this call returns.
//
// When the test ends, in any way, the subreaper kills every descendant that is left and ends with
// the test's status, and so does the original process. When that one is killed, the test is killed
// with the rest. A parent-death signal would not suffice: it is sent when the thread that started
// the child ends, a change of the user clears it, and it reaches no grandchild.
// no grandchild.
// Call it first in main(), before there are threads. Does nothing below another subreaper of this
// kind, which then has these descendants, and under a debugger, which would follow the wrong
// process. Aborts if it cannot.
void RunUnderSubreaper();

// True after RunUnderSubreaper().
bool IsUnderSubreaper();

// The environment variable that marks processes below a subreaper. Empty for a child that is to
// have its own.
inline constexpr char kSubreaperVariable[] = "IDEMPOTENCY_TEST_SUBREAPER";

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SUBREAPER_H_
