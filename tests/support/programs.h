#ifndef IDEMPOTENCY_TESTS_SUPPORT_PROGRAMS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PROGRAMS_H_

#include <string>

#include "absl/status/statusor.h"

namespace idempotency::internal::testing {

// The path of a program of this build that the running test names under PROGRAMS in its
// idempotency_test(), or of the test itself. FAILED_PRECONDITION for any other: the program might
// not be built, or be of an older state than the test.
absl::StatusOr<std::string> ProgramPath(const std::string& name);

// False for a program of this build that is not named there. Programs of the system are always
// allowed.
bool MayStart(const std::string& path);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROGRAMS_H_
