#include "tests/support/daemon_process.h"

#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "tests/support/programs.h"

namespace idempotency::internal::testing {

DaemonProcess::DaemonProcess(std::string store, std::vector<std::string> flags,
                             std::optional<int> descriptors)
    : store_(std::move(store)), flags_(std::move(flags)), descriptors_(descriptors) {
  Start();
}

void DaemonProcess::Start() {
  std::vector<std::string> arguments = {"idempotencyd", "serve",
                                        absl::StrCat("--listen=", address()),
                                        absl::StrCat("--store=", store_), "--metrics=127.0.0.1:0"};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  if (descriptors_.has_value()) {
    arguments.front() = ProgramPath("idempotencyd").value();
    arguments.insert(
        arguments.begin(),
        {"/bin/sh", "-c", absl::StrCat("ulimit -n ", *descriptors_, " && exec \"$0\" \"$@\"")});
  }
  static constexpr char kReady[] = "idempotencyd: serving on ";
  auto process = Process::Start(arguments);
  const absl::StatusOr<std::string> line = process.ok()
                                               ? (*process)->WaitForLine(kReady)
                                               : absl::StatusOr<std::string>(process.status());
  // The tests name the port of the external processor.
  const std::vector<std::string> known =
      absl::StrSplit(absl::StripPrefix(line.ok() ? *line : absl::string_view(""), kReady),
                     ", external processor on ");
  const std::vector<std::string> ports = absl::StrSplit(known[0], ", console on ");
  const std::vector<std::string> addresses = absl::StrSplit(ports[0], ", metrics on ");
  if (addresses.size() != 2) {
    std::cerr << "idempotencyd did not start: " << (line.ok() ? *line : line.status().ToString())
              << "\n";
    std::abort();
  }
  process_ = *std::move(process);
  metrics_address_ = addresses[1];
  console_address_ = ports.size() > 1 ? ports[1] : "";
}

void DaemonProcess::Restart() {
  process_->Kill();
  Start();
}

ExitStatus DaemonProcess::Terminate() {
  process_->Signal(SIGTERM);
  auto exit = process_->Wait();
  if (!exit.ok()) {
    std::cerr << "idempotencyd did not end: " << exit.status() << "\n";
    std::abort();
  }
  return *exit;
}

void MigrateStore(const std::string& store) {
  auto process = Process::Start({"idempotencyd", "migrate", absl::StrCat("--store=", store)});
  const auto exit = process.ok() ? (*process)->Wait() : process.status();
  if (exit.ok() && exit->code == 0) return;
  std::cerr << "migrate failed: " << (process.ok() ? (*process)->Stderr() : "") << "\n";
  std::abort();
}

}  // namespace idempotency::internal::testing
