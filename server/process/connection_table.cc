#include "server/process/connection_table.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <optional>
#include <utility>
#include <vector>

#include "server/files/file_descriptor.h"
#include "server/rpc/peer_host.h"

namespace idempotency::internal {
namespace {

// Empty: not counted by peer.
std::string PeerOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) return HostOf(reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  if (peer.ss_family != AF_INET6) return "";
  return HostOf(reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr);
}

std::optional<ino_t> InodeOf(int number) {
  struct stat found {};
  if (fstat(number, &found) != 0) return std::nullopt;
  return found.st_ino;
}

}  // namespace

ConnectionTable::Verdict ConnectionTable::Admit(int socket, const sockaddr_storage& address) {
  // The number is free again: the connection that had it was closed.
  Remove(socket);
  std::string peer = PeerOf(address);
  if (IsFull(peer)) Prune();
  if (static_cast<int>(entries_.size()) >= limits_.connections) return Verdict::kFull;
  if (IsFull(peer)) return Verdict::kPeerFull;
  if (!peer.empty()) ++by_peer_[peer];
  entries_.emplace(socket,
                   Entry{InodeOf(socket).value_or(0), std::move(peer), RemoteAddressOf(address)});
  return Verdict::kAdmitted;
}

bool ConnectionTable::ShutDown(const RemoteAddress& remote) {
  for (auto& [number, entry] : entries_) {
    if (entry.remote != remote) continue;
    // A descriptor of its own: gRPC may close the number, and it may become another file's.
    const FileDescriptor socket(fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!socket.valid() || InodeOf(socket.get()) != entry.inode) continue;
    // Once.
    entry.remote.reset();
    return shutdown(socket.get(), SHUT_RDWR) == 0;
  }
  return false;
}

bool ConnectionTable::IsFull(const std::string& peer) const {
  if (static_cast<int>(entries_.size()) >= limits_.connections) return true;
  const auto count = by_peer_.find(peer);
  return count != by_peer_.end() && count->second >= limits_.per_peer;
}

void ConnectionTable::Prune() {
  const auto now = clock_.Monotonic();
  if (now < next_prune_) return;
  next_prune_ = now + kPruneInterval;
  std::vector<int> closed;
  for (const auto& [number, entry] : entries_) {
    if (InodeOf(number) != entry.inode) closed.push_back(number);
  }
  for (const int number : closed) Remove(number);
}

void ConnectionTable::Remove(int number) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return;
  const auto count = by_peer_.find(entry->second.peer);
  if (count != by_peer_.end() && --count->second == 0) by_peer_.erase(count);
  entries_.erase(entry);
}

}  // namespace idempotency::internal
