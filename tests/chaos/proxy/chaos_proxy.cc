// Forwards many links in one thread, and breaks them on command.
//
//   chaos-proxy --control=unix:PATH --seed=N NAME=LISTEN=TARGET...
//
// tests/chaos/README.md describes the commands.
#include <signal.h>
#include <sys/signalfd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "tests/chaos/proxy/control.h"
#include "tests/chaos/proxy/control_socket.h"
#include "tests/chaos/proxy/file_descriptor.h"
#include "tests/chaos/proxy/link.h"
#include "tests/chaos/proxy/poll_set.h"
#include "tests/chaos/proxy/socket_address.h"

ABSL_FLAG(std::string, control, "", "listen address for commands: unix:PATH");
ABSL_FLAG(std::uint64_t, seed, 0, "seed of the delays");

namespace idempotency::internal::chaos {
namespace {

// SIGTERM and SIGINT, as an event to wait for.
FileDescriptor EndSignals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  return FileDescriptor(signalfd(-1, &ends, SFD_CLOEXEC));
}

void Forward(std::vector<std::unique_ptr<Link>>& links, ControlSocket& control,
             const FileDescriptor& end) {
  PollSet poll;
  while (true) {
    poll.Clear();
    const PollSet::Slot ended = poll.Add(end.get(), POLLIN);
    control.AddTo(poll);
    for (const auto& link : links) link->AddTo(poll);
    poll.Wait();
    if (poll.Ready(ended) != 0) return;
    // Before the links: a command that came before a byte applies to that byte.
    control.Work(poll);
    for (const auto& link : links) link->Work(poll);
  }
}

absl::Status Run(const std::vector<std::string>& arguments) {
  const FileDescriptor end = EndSignals();
  std::vector<std::unique_ptr<Link>> links;
  for (const std::string& argument : arguments) {
    absl::StatusOr<std::unique_ptr<Link>> link = Link::Open(argument, absl::GetFlag(FLAGS_seed));
    if (!link.ok()) return link.status();
    links.push_back(*std::move(link));
  }
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(absl::GetFlag(FLAGS_control));
  if (!address.ok()) return address.status();
  absl::StatusOr<FileDescriptor> listener = address->Listen();
  if (!listener.ok()) return listener.status();
  ControlSocket control(*std::move(listener), Control(&links));
  for (const auto& link : links) {
    std::printf("link %s %s\n", link->name().c_str(), link->address().ToString().c_str());
  }
  std::printf("ready\n");
  std::fflush(stdout);
  Forward(links, control, end);
  return absl::OkStatus();
}

}  // namespace
}  // namespace idempotency::internal::chaos

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("chaos-proxy --control=unix:PATH --seed=N NAME=LISTEN=TARGET...");
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  const absl::Status status =
      idempotency::internal::chaos::Run(std::vector<std::string>(words.begin() + 1, words.end()));
  if (status.ok()) return 0;
  std::fprintf(stderr, "chaos-proxy: %s\n", std::string(status.message()).c_str());
  return 1;
}
