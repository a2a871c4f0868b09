#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_TESTING_FLAGS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_TESTING_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "server/observability/log.h"

namespace idempotency::internal {

// The options of `idempotencyd serve-testing`, validated. It has no address: it serves on loopback.
struct ServeTestingOptions {
  // 0: a free one.
  std::uint16_t port = 0;
  // When to end, apart from SIGTERM.
  bool exit_with_parent = true;
  bool exit_with_stdin = false;
  LogLevel log_level = LogLevel::kWarn;
};

// Reads the arguments after the command. INVALID_ARGUMENT names the wrong one and what to write
// instead.
absl::StatusOr<ServeTestingOptions> ParseServeTesting(absl::Span<const absl::string_view> args);
std::string ServeTestingHelp();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_TESTING_FLAGS_H_
