#include "server/process/connection_table.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/files/file_descriptor.h"

namespace idempotency::internal {
namespace {

std::optional<ino_t> InodeOf(int number) {
  struct stat found {};
  if (fstat(number, &found) != 0) return std::nullopt;
  return found.st_ino;
}

}  // namespace

std::string TextOf(const RemoteAddress& remote) {
  const auto& [ip, port] = remote;
  const bool ipv4 = ip.size() == sizeof(in_addr);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(ipv4 ? AF_INET : AF_INET6, ip.data(), text.data(), text.size());
  return ipv4 ? absl::StrCat(text.data(), ":", port) : absl::StrCat("[", text.data(), "]:", port);
}

ConnectionTable::Verdict ConnectionTable::Admit(int socket, const sockaddr_storage& address) {
  // The number is free again: the connection that had it was closed.
  Remove(socket);
  std::optional<RemoteAddress> remote = RemoteAddressOf(address);
  // Empty: not counted by peer.
  std::string peer = remote ? HostOf(remote->first) : "";
  if (IsPenalised(peer)) return Verdict::kPenalised;
  if (IsFull(peer)) Prune();
  if (static_cast<int>(entries_.size()) >= limits_.connections) return Verdict::kFull;
  if (IsFull(peer)) return Verdict::kPeerFull;
  if (!peer.empty()) ++by_peer_[peer];
  entries_.emplace(socket, Entry{InodeOf(socket).value_or(0), std::move(peer), std::move(remote),
                                 clock_.Monotonic()});
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
    Penalise(entry.peer);
    return shutdown(socket.get(), SHUT_RDWR) == 0;
  }
  return false;
}

std::vector<RemoteAddress> ConnectionTable::Recent() const {
  const auto since = clock_.Monotonic() - kRecent;
  std::vector<std::pair<std::chrono::steady_clock::time_point, RemoteAddress>> recent;
  for (const auto& [number, entry] : entries_) {
    if (entry.admitted < since || !entry.remote.has_value()) continue;
    if (InodeOf(number) == entry.inode) recent.emplace_back(entry.admitted, *entry.remote);
  }
  std::sort(recent.begin(), recent.end(), std::greater<>());
  std::vector<RemoteAddress> remotes;
  for (auto& [admitted, remote] : recent) {
    if (remotes.size() < kMaxRecent) remotes.push_back(std::move(remote));
  }
  return remotes;
}

bool ConnectionTable::IsFull(const std::string& peer) const {
  if (static_cast<int>(entries_.size()) >= limits_.connections) return true;
  const auto count = by_peer_.find(peer);
  return count != by_peer_.end() && count->second >= limits_.per_peer;
}

bool ConnectionTable::IsPenalised(const std::string& peer) const {
  const auto penalty = penalties_.find(peer);
  return penalty != penalties_.end() && clock_.Monotonic() < penalty->second;
}

void ConnectionTable::Penalise(const std::string& peer) {
  const auto now = clock_.Monotonic();
  absl::erase_if(penalties_, [now](const auto& penalty) { return penalty.second <= now; });
  penalties_[peer] = now + kPenalty;
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
