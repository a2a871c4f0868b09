#ifndef IDEMPOTENCY_CTL_PROGRAM_H_
#define IDEMPOTENCY_CTL_PROGRAM_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ctl/terminal.h"

namespace idempotency::internal {

// The exit status of the process.
enum class ExitCode {
  kDone = 0,
  kFailed = 1,
  kWrongUsage = 2,
  kNotFound = 3,
  // The record changed, or needs --force.
  kRefused = 4,
  // The question was not answered with yes.
  kNotConfirmed = 5,
};

// Runs the command of `args`, which do not include the program's name.
ExitCode RunProgram(absl::Span<const absl::string_view> args, Terminal& terminal);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_PROGRAM_H_
