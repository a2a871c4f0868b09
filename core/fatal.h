#ifndef IDEMPOTENCY_CORE_FATAL_H_
#define IDEMPOTENCY_CORE_FATAL_H_

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace idempotency::internal {

// Ends the process, with the reason on stderr: for states in which no result of this process could
// be relied on, and no error could be returned. Not through a log, which may be the cause.
// Thread-safe.
[[noreturn]] inline void Fatal(std::string_view reason) {
  std::fprintf(stderr, "grpc-idempotency: fatal: %.*s\n", static_cast<int>(reason.size()),
               reason.data());
  std::abort();
}

// The same unless `condition` is true; also in release builds.
inline void Require(bool condition, std::string_view reason) {
  if (!condition) Fatal(reason);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_FATAL_H_
