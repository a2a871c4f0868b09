#ifndef IDEMPOTENCY_TESTS_SUPPORT_SUBREAPER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SUBREAPER_H_

namespace idempotency::internal::testing {

// Makes three processes of this one, for a test that starts others: the one that was
// called, which waits; below it a subreaper, to which the kernel gives every descendant
// whose parent has ended; and below that the one that goes on, in which this call returns.
//
// When the test ends, in whatever way, the subreaper kills every descendant that is left
// and ends as the test ended, and so does the process that was called. When that one is
// killed, the test goes with the rest. A parent-death signal would not do: it comes when
// the thread that started the child ends, a change of the user clears it, and it reaches
// no grandchild.
//
// To be called first in main(), before there are threads. Does nothing below another
// subreaper of this kind, whose descendants these are, and under a debugger, which would
// follow the wrong process. Aborts if it cannot.
void RunUnderSubreaper();

// True after RunUnderSubreaper().
bool IsUnderSubreaper();

// The environment variable that says that the process is below a subreaper. Empty for a
// child that is to have its own.
inline constexpr char kSubreaperVariable[] = "IDEMPOTENCY_TEST_SUBREAPER";

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SUBREAPER_H_
