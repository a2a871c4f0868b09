#include "tests/fuzz/property.h"

#include <cstdlib>
#include <iostream>

namespace idempotency::internal::fuzz {

void Require(bool held, std::string_view property) {
  if (held) return;
  std::cerr << "this must be so and is not: " << property << std::endl;
  std::abort();
}

}  // namespace idempotency::internal::fuzz
