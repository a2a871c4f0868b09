#ifndef IDEMPOTENCY_CTL_LOCAL_ADDRESS_H_
#define IDEMPOTENCY_CTL_LOCAL_ADDRESS_H_

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// True for an address, as gRPC writes targets, that never leaves this machine. A name that the
// machine's resolver may send elsewhere is none, except localhost.
bool IsLocal(absl::string_view address);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_LOCAL_ADDRESS_H_
