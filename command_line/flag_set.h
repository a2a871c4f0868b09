#ifndef IDEMPOTENCY_COMMAND_LINE_FLAG_SET_H_
#define IDEMPOTENCY_COMMAND_LINE_FLAG_SET_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace idempotency::internal {

// The flags of one subcommand. Not abseil's registry of flags: that is one set
// for the whole process, exits with status 1 on a mistake, and so can neither
// be split into subcommands nor tested as a table.
//
// Each flag is bound to a variable, whose value at that moment is the default
// that Help() shows. Thread-compatible; the variables must outlive Parse().
class FlagSet {
 public:
  void AddText(absl::string_view name, absl::string_view placeholder, std::string* value,
               absl::string_view help);
  // The same for a name or a file, which is never empty: a script whose variable is empty would
  // select more than it means to, or leave a protection out.
  void AddName(absl::string_view name, absl::string_view placeholder, std::string* value,
               absl::string_view help);
  // A value outside [min, max] is refused; the help shows the limits.
  void AddInt(absl::string_view name, int* value, int min, int max, absl::string_view help);
  void AddDuration(absl::string_view name, absl::Duration* value, absl::Duration min,
                   absl::Duration max, absl::string_view help);
  // Without a default, so that a value that must be chosen is distinguished from none.
  void AddDuration(absl::string_view name, std::optional<absl::Duration>* value, absl::Duration min,
                   absl::Duration max, absl::string_view help);
  // --name, --name=true or --name=false.
  void AddSwitch(absl::string_view name, bool* value, absl::string_view help);

  // Reads --name=value and --name value; the variables of flags that are not
  // given keep their values. INVALID_ARGUMENT names the wrong argument and
  // what to write: an unknown flag, one given twice, a value missing or out of
  // range, an argument that is not a flag. If `operand` is not null, one such
  // argument, anywhere, is stored there; an empty one is refused, since a script
  // whose variable is empty would select more than it means to.
  absl::Status Parse(absl::Span<const absl::string_view> args,
                     absl::string_view* operand = nullptr);

  // One paragraph per flag, in the order in which they were added.
  std::string Help() const;

  // A flag, for manual pages and for the completion of shells.
  struct Description {
    std::string name;
    // Empty for a switch.
    std::string placeholder;
    std::string help;
  };
  std::vector<Description> Describe() const;

 private:
  struct Flag {
    std::string name;
    // The text after '=' in the help; empty for a switch.
    std::string placeholder;
    std::string help;
    std::string default_text;
    // Sets the variable, or returns what is wrong with the text.
    std::function<absl::Status(absl::string_view)> set;
    bool seen = false;
  };

  template <typename Value>
  static Flag DurationFlag(absl::string_view name, Value* value, absl::Duration min,
                           absl::Duration max, absl::string_view help);

  Flag* Find(absl::string_view name);

  std::vector<Flag> flags_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_COMMAND_LINE_FLAG_SET_H_
