#include "ctl/program.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"
#include "ctl/command_flags.h"
#include "ctl/commands.h"
#include "ctl/completion.h"
#include "ctl/interrupts.h"
#include "ctl/manual_page.h"
#include "explanation/printable_text.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

std::vector<std::unique_ptr<Command>> NewCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(NewGetCommand());
  commands.push_back(NewExplainCommand());
  commands.push_back(NewListCommand());
  commands.push_back(NewWatchCommand());
  commands.push_back(NewStatsCommand());
  commands.push_back(NewTreeCommand());
  commands.push_back(NewResolveCommand());
  commands.push_back(NewPurgeCommand());
  commands.push_back(NewAuditCommand());
  commands.push_back(NewEnvoyConfigCommand());
  commands.push_back(NewKeyRingCheckCommand());
  commands.push_back(NewKeyRingGenerateCommand());
  commands.push_back(NewKeyRingResealCommand());
  return commands;
}

namespace {

using Args = absl::Span<const absl::string_view>;

// A message may quote what a server sent.
std::string ErrorLine(const absl::Status& status) {
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat("idempotencyctl: ",
                      reason.has_value() ? absl::StrCat(AbslView(ReasonName(*reason)), ": ") : "",
                      PrintableText(std::string(status.message())), "\n");
}

ExitCode RefuseUsage(const absl::Status& status, Terminal& terminal) {
  terminal.Note(absl::StrCat(ErrorLine(status),
                             "`idempotencyctl --help` describes the commands and their flags.\n"));
  return ExitCode::kWrongUsage;
}

ExitCode CodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kDone;
  const std::optional<Reason> reason = ReasonOf(status);
  if (reason == Reason::kRecordNotFound) return ExitCode::kNotFound;
  if (reason == Reason::kRecordChanged || reason == Reason::kForceRequired) {
    return ExitCode::kRefused;
  }
  return IsNotConfirmed(status) ? ExitCode::kNotConfirmed : ExitCode::kFailed;
}

// The command that the first words of `args` name, and how many words that is.
std::pair<std::unique_ptr<Command>, std::size_t> FindCommand(Args args) {
  for (std::unique_ptr<Command>& command : NewCommands()) {
    const std::vector<absl::string_view> words = absl::StrSplit(command->name(), ' ');
    if (words.size() <= args.size() && std::equal(words.begin(), words.end(), args.begin())) {
      return {std::move(command), words.size()};
    }
  }
  return {nullptr, 0};
}

ExitCode PrintHelp(Command& command, Terminal& terminal) {
  terminal.Print(absl::StrCat(
      "idempotencyctl ", command.name(), command.operand().empty() ? "" : " ", command.operand(),
      " [flags]\n\n", command.description(), "\n\nFlags:\n", CommandFlags(command).set().Help()));
  return ExitCode::kDone;
}

ExitCode RunCommand(Command& command, Args args, Terminal& terminal) {
  if (std::find(args.begin(), args.end(), "--help") != args.end()) {
    return PrintHelp(command, terminal);
  }
  absl::string_view operand;
  CommandFlags flags(command);
  const absl::Status parsed =
      flags.set().Parse(args, command.operand().empty() ? nullptr : &operand);
  if (!parsed.ok()) return RefuseUsage(parsed, terminal);
  if (const absl::Status valid = command.Validate(operand); !valid.ok()) {
    return RefuseUsage(valid, terminal);
  }
  if (command.runs_until_interrupted()) Interrupts::Hold();
  const absl::StatusOr<std::unique_ptr<Service>> service = flags.Connect();
  if (!service.ok()) return RefuseUsage(service.status(), terminal);
  const absl::Status done = command.Run(service->get(), terminal);
  if (!done.ok()) terminal.Note(ErrorLine(done));
  return CodeOf(done);
}

ExitCode PrintCompletion(Args args, Terminal& terminal) {
  const absl::StatusOr<std::string> script = CompletionScript(args.empty() ? "" : args.front());
  if (!script.ok()) return RefuseUsage(script.status(), terminal);
  terminal.Print(*script);
  return ExitCode::kDone;
}

std::string CommandNames() {
  std::vector<std::string> names;
  for (const std::unique_ptr<Command>& command : NewCommands()) names.emplace_back(command->name());
  return absl::StrJoin(names, ", ");
}

}  // namespace

ExitCode RunProgram(Args args, Terminal& terminal) {
  if (args.empty()) {
    return RefuseUsage(absl::InvalidArgumentError("no command is given"), terminal);
  }
  const absl::string_view first = args.front();
  if (first == "--help") {
    terminal.Print(Overview());
    return ExitCode::kDone;
  }
  if (first == "--version") {
    terminal.Print(absl::StrCat("idempotencyctl ", IDEMPOTENCY_VERSION, "\n"));
    return ExitCode::kDone;
  }
  if (first == "completion") return PrintCompletion(args.subspan(1), terminal);
  // For the packages; no command of a person.
  if (first == "manual-page") {
    terminal.Print(ManualPage());
    return ExitCode::kDone;
  }
  const auto [command, words] = FindCommand(args);
  if (command != nullptr) return RunCommand(*command, args.subspan(words), terminal);
  return RefuseUsage(
      absl::InvalidArgumentError(absl::StrCat("'", first, "' is not a command; the commands are ",
                                              CommandNames(), " and completion")),
      terminal);
}

}  // namespace idempotency::internal
