#include "ctl/manual_page.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "ctl/command_flags.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kIntroduction =
    "idempotencyctl shows the idempotency records of an idempotencyd, settles those that are\n"
    "stuck, and forgets records. It calls idempotencyd over gRPC, as the identity of its\n"
    "certificate or token, under the same rules as every caller.\n";

constexpr absl::string_view kExitStatus =
    "0 success; 1 failure, with the reason on stderr; 2 a wrong command line; 3 there is no such\n"
    "record, or it may not be seen; 4 the record changed, or needs --force: nothing was written;\n"
    "5 nothing was written because the question was not answered with yes.\n";

constexpr absl::string_view kExamples =
    "  # What happened to the payment of a support ticket?\n"
    "  idempotencyctl explain 0192f3a4-5b6c-7d8e-9f01-23456789abcd\n"
    "\n"
    "  # Which outcomes are unknown?\n"
    "  idempotencyctl list --namespace=payments --state=unknown\n"
    "\n"
    "  # An identity, for all further commands.\n"
    "  export IDEMPOTENCYCTL_ADDRESS=idempotencyd.example:7411\n"
    "  export IDEMPOTENCYCTL_TLS_CA=ca.pem\n"
    "  export IDEMPOTENCYCTL_TLS_CERT=on-call.pem IDEMPOTENCYCTL_TLS_KEY=on-call.key\n";

// Text of man(7): no line is taken for a request, and hyphens stay hyphens.
std::string Escaped(absl::string_view text) {
  std::string escaped;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string safe = absl::StrReplaceAll(line, {{"\\", "\\e"}, {"-", "\\-"}});
    const bool request = !safe.empty() && (safe.front() == '.' || safe.front() == '\'');
    absl::StrAppend(&escaped, escaped.empty() ? "" : "\n", request ? "\\&" : "", safe);
  }
  return escaped;
}

void AppendCommand(Command& command, std::string* page) {
  absl::StrAppend(page, ".SS idempotencyctl ", Escaped(command.name()),
                  command.operand().empty() ? "" : " ", Escaped(command.operand()), "\n", ".nf\n",
                  Escaped(command.description()), "\n.fi\n");
  for (const FlagSet::Description& flag : CommandFlags(command).set().Describe()) {
    absl::StrAppend(page, ".TP\n.B \\-\\-", Escaped(flag.name),
                    flag.placeholder.empty() ? "" : absl::StrCat("=", flag.placeholder), "\n",
                    Escaped(absl::StrReplaceAll(flag.help, {{"\n", " "}})), "\n");
  }
}

}  // namespace

std::string Overview() {
  std::string text = absl::StrCat(kIntroduction, "\nUsage:\n");
  for (const std::unique_ptr<Command>& command : NewCommands()) {
    const std::string usage =
        absl::StrCat(command->name(), command->operand().empty() ? "" : " ", command->operand());
    absl::StrAppendFormat(&text, "  idempotencyctl %-24s %s\n", usage, command->summary());
  }
  absl::StrAppendFormat(&text, "  idempotencyctl %-24s %s\n", "completion bash|zsh|fish",
                        "print a script for a shell");
  return absl::StrCat(text, "  idempotencyctl --help | --version\n",
                      "\n`idempotencyctl COMMAND --help` lists a command's flags.\n\nExamples:\n",
                      kExamples, "\nExit status: ", kExitStatus);
}

std::string ManualPage() {
  std::string page = absl::StrCat(
      ".TH IDEMPOTENCYCTL 1 \"\" \"grpc\\-idempotency\" \"User Commands\"\n"
      ".SH NAME\nidempotencyctl \\- inspect and settle idempotency records\n"
      ".SH SYNOPSIS\n.B idempotencyctl\n\\fICOMMAND\\fR [\\fIFLAGS\\fR]\n"
      ".SH DESCRIPTION\n",
      Escaped(kIntroduction), ".SH COMMANDS\n");
  for (const std::unique_ptr<Command>& command : NewCommands()) AppendCommand(*command, &page);
  absl::StrAppend(&page,
                  ".SS idempotencyctl completion bash|zsh|fish\n"
                  "Prints a script that completes commands and flags in that shell.\n"
                  ".SH EXIT STATUS\n",
                  Escaped(kExitStatus), ".SH EXAMPLES\n.nf\n", Escaped(kExamples),
                  ".fi\n.SH SEE ALSO\n.BR idempotencyd (1)\n");
  return page;
}

}  // namespace idempotency::internal
