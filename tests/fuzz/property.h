#ifndef IDEMPOTENCY_TESTS_FUZZ_PROPERTY_H_
#define IDEMPOTENCY_TESTS_FUZZ_PROPERTY_H_

#include <string_view>

namespace idempotency::internal::fuzz {

// An invariant for every input. Ends the process, with `property` on stderr, unless it held: a
// fuzzer reports that as a finding.
void Require(bool held, std::string_view property);

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_PROPERTY_H_
