#ifndef IDEMPOTENCY_TESTS_SUPPORT_DAEMON_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_DAEMON_PROCESS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/held_port.h"
#include "tests/support/process.h"

namespace idempotency::internal::testing {

// A real idempotencyd on loopback, on a port that stays reserved while it is stopped. Aborts the
// test process if it cannot start. Thread-compatible.
class DaemonProcess {
 public:
  // `store` as for --store; `flags` are added unchanged. `descriptors` is the hard limit of its
  // open descriptors.
  explicit DaemonProcess(std::string store, std::vector<std::string> flags = {},
                         std::optional<int> descriptors = std::nullopt);

  // "127.0.0.1:PORT"; the same after Restart().
  const std::string& address() const { return port_.address(); }
  // The address of /metrics.
  const std::string& metrics_address() const { return metrics_address_; }
  // The address of the console; "" without one.
  const std::string& console_address() const { return console_address_; }
  Process& process() { return *process_; }

  // kill -9.
  void Kill() { process_->Kill(); }
  // Starts it again, on the same port.
  void Restart();
  // SIGTERM, and waits for the end.
  ExitStatus Terminate();

 private:
  void Start();

  const std::string store_;
  const std::vector<std::string> flags_;
  const std::optional<int> descriptors_;
  const HeldPort port_;
  std::string metrics_address_;
  std::string console_address_;
  std::unique_ptr<Process> process_;
};

// Runs `idempotencyd migrate` to its end. Aborts the test process if it fails.
void MigrateStore(const std::string& store);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_DAEMON_PROCESS_H_
