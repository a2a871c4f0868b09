#ifndef IDEMPOTENCY_CTL_MANUAL_PAGE_H_
#define IDEMPOTENCY_CTL_MANUAL_PAGE_H_

#include <string>

namespace idempotency::internal {

// The text of `idempotencyctl --help`.
std::string Overview();
// idempotencyctl(1), as man(7) source: the overview, and every command with its flags. The same on
// every machine.
std::string ManualPage();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_MANUAL_PAGE_H_
