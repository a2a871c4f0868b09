#ifndef IDEMPOTENCY_SERVER_VERSION_H_
#define IDEMPOTENCY_SERVER_VERSION_H_

#include <string_view>

namespace idempotency {

// MAJOR.MINOR.PATCH of this build, from the file VERSION.
std::string_view Version();

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_VERSION_H_
