#include "server/process/serving_process.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "server/files/file_content.h"

namespace idempotency::internal {
namespace {

namespace fs = std::filesystem;

constexpr char kAdvice[] = "set the server's address with --address=HOST:PORT";

bool IsPid(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

// The arguments of a process; empty if it has ended or is another user's.
std::vector<std::string> ArgumentsOf(const fs::path& process) {
  const absl::StatusOr<std::string> all = FileContent(process / "cmdline");
  if (!all.ok()) return {};
  std::vector<std::string> arguments = absl::StrSplit(*all, '\0');
  // Each ends with a NUL.
  arguments.pop_back();
  return arguments;
}

bool IsServing(const std::vector<std::string>& arguments) {
  return arguments.size() >= 2 && fs::path(arguments[0]).filename() == "idempotencyd" &&
         arguments[1] == "serve";
}

// A path of the other process, from here.
void Resolve(const fs::path& folder, std::string& file) {
  if (!file.empty() && fs::path(file).is_relative()) file = (folder / file).string();
}

absl::StatusOr<ServeOptions> OptionsOf(const fs::path& process,
                                       const std::vector<std::string>& arguments) {
  const std::vector<absl::string_view> flags(arguments.begin() + 1, arguments.end());
  absl::StatusOr<CommandLine> command = ParseCommandLine(flags);
  if (!command.ok() || !std::holds_alternative<ServeOptions>(*command)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the running idempotencyd has flags that this build does not support; ", kAdvice));
  }
  auto options = std::get<ServeOptions>(*std::move(command));
  if (options.listen.unix_path.empty() && options.listen.port == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the running idempotencyd listens on a port that the system chose; ", kAdvice));
  }
  std::error_code gone;
  const fs::path folder = fs::read_symlink(process / "cwd", gone);
  for (std::string* const file : {&options.listen.unix_path, &options.tls.certificate,
                                  &options.tls.key, &options.tls.client_ca, &options.config}) {
    Resolve(folder, *file);
  }
  return options;
}

}  // namespace

absl::StatusOr<ServeOptions> FindServingProcess(const std::string& proc) {
  fs::path found;
  std::vector<std::string> its_arguments;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, error)) {
    if (!IsPid(entry.path().filename().string())) continue;
    std::vector<std::string> arguments = ArgumentsOf(entry.path());
    if (!IsServing(arguments)) continue;
    if (!found.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("several idempotencyd run here; ", kAdvice));
    }
    found = entry.path();
    its_arguments = std::move(arguments);
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("no idempotencyd serves here; ", kAdvice));
  }
  return OptionsOf(found, its_arguments);
}

}  // namespace idempotency::internal
