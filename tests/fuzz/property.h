#ifndef IDEMPOTENCY_TESTS_FUZZ_PROPERTY_H_
#define IDEMPOTENCY_TESTS_FUZZ_PROPERTY_H_

#include <string_view>

namespace idempotency::internal::fuzz {

// What must be so for every input. Ends the process, with `property` on stderr,
// unless it held: that is what a fuzzer takes for a finding.
void Require(bool held, std::string_view property);

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_PROPERTY_H_
