#include "tests/chaos/proxy/control_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace idempotency::internal::chaos {
namespace {

constexpr std::size_t kMaxLineBytes = 4096;

}  // namespace

void ControlSocket::AddTo(PollSet& poll) {
  peers_.remove_if([](const Peer& peer) { return !peer.socket.is_open(); });
  slot_ = poll.Add(listener_.get(), POLLIN);
  for (Peer& peer : peers_) peer.slot = poll.Add(peer.socket.get(), POLLIN);
}

void ControlSocket::Work(const PollSet& poll) {
  for (Peer& peer : peers_) {
    if (poll.Ready(peer.slot) != 0) Read(peer);
  }
  if (poll.Ready(slot_) == 0) return;
  FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) peers_.push_back({std::move(socket), "", PollSet::kNone});
}

void ControlSocket::Read(Peer& peer) {
  std::array<char, kMaxLineBytes> buffer;
  const ssize_t n = recv(peer.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    peer.socket.Close();
    return;
  }
  peer.line.append(buffer.data(), static_cast<std::size_t>(n));
  std::size_t end = 0;
  while ((end = peer.line.find('\n')) != std::string::npos) {
    const std::string answer = control_.Answer(peer.line.substr(0, end));
    peer.line.erase(0, end + 1);
    if (!Send(peer, answer)) {
      peer.socket.Close();
      return;
    }
  }
  if (peer.line.size() >= kMaxLineBytes) peer.socket.Close();
}

bool ControlSocket::Send(const Peer& peer, const std::string& answer) {
  const std::string line = absl::StrCat(answer, "\n");
  return send(peer.socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(line.size());
}

}  // namespace idempotency::internal::chaos
