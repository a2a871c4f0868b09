// idempotencyd: executes the command line, and determines how the process ends.
#include <malloc.h>

#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

#include "idempotencyd/external_processor_service.h"
#include "server/config/config_file.h"
#include "server/config/config_notes.h"
#include "server/observability/log.h"
#include "server/process/command_line.h"
#include "server/process/core_dumps.h"
#include "server/process/daemon.h"
#include "server/process/descriptor_limit.h"
#include "server/process/health_probe.h"
#include "server/process/migrate_command.h"
#include "server/process/parent_watch.h"
#include "server/process/signal_thread.h"
#include "server/process/stop_request.h"
#include "server/process/testing_daemon.h"

namespace idempotency::internal {
namespace {

constexpr int kDone = 0;
constexpr int kNotServing = 1;
constexpr int kRefused = 2;

void Print(std::FILE* stream, absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

int Refuse(const absl::Status& status) {
  // After the log's lines; a reader that does not read them keeps no process from ending.
  if (!StopLog()) return kRefused;
  Print(stderr, absl::StrCat("idempotencyd: ", status.message(), "\n"));
  return kRefused;
}

int RefuseUsage(const absl::Status& status) {
  const int code = Refuse(status);
  Print(stderr, "`idempotencyd --help` describes the commands and their flags.\n");
  return code;
}

std::string ReadyLine(const Daemon& daemon) {
  std::string line = absl::StrCat("idempotencyd: serving on ", daemon.listen_address().ToString());
  if (const NetworkAddress* metrics = daemon.metrics_address(); metrics != nullptr) {
    absl::StrAppend(&line, ", metrics on ", metrics->ToString());
  }
  if (const NetworkAddress* console = daemon.console_address(); console != nullptr) {
    absl::StrAppend(&line, ", console on ", console->ToString());
  }
  if (const NetworkAddress* ext_proc = daemon.ext_proc_address(); ext_proc != nullptr) {
    absl::StrAppend(&line, ", external processor on ", ext_proc->ToString());
  }
  return line + "\n";
}

// The settings of the whole process, before its first thread.
void SetUpProcess() {
  // Buffers of large replies return to the system after their last use. By
  // default, glibc raises this threshold with every one that it frees, to 32
  // MiB, and keeps smaller buffers.
  mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
  // Debian's abseil checks for deadlocks at each of gRPC's locks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

int Run(const ServeOptions& options) {
  SetUpProcess();
  StartLog(options.log_level, options.log_format);
  if (!options.core_dumps) DisableCoreDumps();
  DescriptorLimit::Raise();
  StopRequest stop;
  const SignalThread signals([&stop](int number) {
    stop.Request(absl::OkStatus());
    Log(LogLevel::kInfo, "signal", {{"number", number}});
  });
  absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      Daemon::Start(options, &stop, {MakeExternalProcessor, CheckExternalProcessor});
  if (!daemon.ok()) return Refuse(daemon.status());
  Print(stdout, ReadyLine(**daemon));
  const absl::Status reason = stop.Wait();
  daemon->reset();
  if (!reason.ok()) return Refuse(reason);
  Log(LogLevel::kInfo, "stopped");
  return kDone;
}

int Run(const ServeTestingOptions& options) {
  SetUpProcess();
  StartLog(options.log_level);
  DescriptorLimit::Raise();
  StopRequest stop;
  const SignalThread signals([&stop](int /*number*/) { stop.Request(absl::OkStatus()); });
  const ParentWatch parent({options.exit_with_parent, options.exit_with_stdin},
                           [&stop] { stop.Request(absl::OkStatus()); });
  absl::StatusOr<std::unique_ptr<TestingDaemon>> daemon = TestingDaemon::Start(options, &stop);
  if (!daemon.ok()) return Refuse(daemon.status());
  Print(stdout, absl::StrCat("idempotencyd: serving tests on ",
                             (*daemon)->listen_address().ToString(), "\n"));
  const absl::Status reason = stop.Wait();
  daemon->reset();
  return reason.ok() ? kDone : Refuse(reason);
}

int Run(const MigrateOptions& options) {
  StartLog(LogLevel::kWarn);
  const absl::StatusOr<std::string> report = Migrate(options);
  if (!report.ok()) return Refuse(report.status());
  Print(stdout, *report);
  return kDone;
}

int Run(const CheckConfigOptions& options) {
  const absl::StatusOr<LoadedConfig> loaded = LoadConfig(options.config);
  if (!loaded.ok()) return Refuse(loaded.status());
  const absl::Status valid = CheckExternalProcessor(*loaded);
  if (!valid.ok() && !absl::IsUnimplemented(valid)) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(options.config, ": ", valid.message())));
  }
  if (options.print) Print(stdout, PrintConfig(loaded->config));
  std::vector<std::string> notes = NotesOn(*loaded);
  if (!valid.ok()) notes.emplace_back(valid.message());
  for (const std::string& note : notes) {
    Print(stderr, absl::StrCat(options.config, ": note: ", note, "\n"));
  }
  Print(stderr, absl::StrCat(options.config, ": valid\n"));
  return kDone;
}

int Run(const HealthOptions& options) {
  const absl::Status serving = ProbeHealth(options);
  if (serving.ok()) {
    Print(stdout, "SERVING\n");
    return kDone;
  }
  Print(stderr, absl::StrCat("idempotencyd: ", serving.message(), "\n"));
  return kNotServing;
}

int Run(const ShowText& show) {
  Print(stdout, show.text);
  return kDone;
}

int Main(const std::vector<absl::string_view>& arguments) {
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(arguments);
  if (!command_line.ok()) return RefuseUsage(command_line.status());
  const int code = std::visit([](const auto& command) { return Run(command); }, *command_line);
  static_cast<void>(StopLog());
  return code;
}

}  // namespace
}  // namespace idempotency::internal

int main(int argc, char** argv) {
  // A caller of exec may leave out even the program's name.
  const int first = argc > 0 ? 1 : 0;
  return idempotency::internal::Main(std::vector<absl::string_view>(argv + first, argv + argc));
}
