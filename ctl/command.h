#ifndef IDEMPOTENCY_CTL_COMMAND_H_
#define IDEMPOTENCY_CTL_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "command_line/flag_set.h"
#include "ctl/service.h"
#include "ctl/terminal.h"

namespace idempotency::internal {

// One command of idempotencyctl: the single source of its parsing, its --help, its manual page and
// its completion. Used by one thread, for one run.
class Command {
 public:
  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  virtual absl::string_view name() const = 0;
  // The operand that may stand before the flags, such as "[RECORD_ID]"; empty: none.
  virtual absl::string_view operand() const { return ""; }
  // A line.
  virtual absl::string_view summary() const = 0;
  // Paragraphs, in lines of up to 80 characters.
  virtual absl::string_view description() const = 0;

  virtual void AddFlags(FlagSet& flags) = 0;
  // `operand` is empty if none is given. Called after the flags are parsed. INVALID_ARGUMENT: what
  // to write instead.
  virtual absl::Status Validate(absl::string_view operand) = 0;
  // False: it connects to nothing, and has no flags of a connection.
  virtual bool connects() const { return true; }
  // True: it runs until SIGINT or SIGTERM, which are held (ctl/interrupts.h) before it connects.
  virtual bool runs_until_interrupted() const { return false; }
  // `service` is null if it does not connect.
  virtual absl::Status Run(Service* service, Terminal& terminal) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_COMMAND_H_
