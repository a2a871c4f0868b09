#ifndef IDEMPOTENCY_SERVER_PROCESS_CONNECTION_TABLE_H_
#define IDEMPOTENCY_SERVER_PROCESS_CONNECTION_TABLE_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/clock.h"
#include "server/rpc/remote_address.h"

namespace idempotency::internal {

// "192.0.2.1:4000", or "[2001:db8::1]:4000".
std::string TextOf(const RemoteAddress& remote);

// The connections of a listener, counted in total and by remote address, although
// gRPC closes them without notice: the file that a descriptor's number refers to
// shows whether the connection is still open.
//
// Thread-compatible.
class ConnectionTable {
 public:
  struct Limits {
    int connections = 0;
    // From one address: an IPv4 address, or 64 bits of an IPv6 address, the prefix
    // that one host gets. Unix sockets have no such limit.
    int per_peer = 0;
  };
  enum class Verdict { kAdmitted, kFull, kPeerFull, kPenalised };

  // `clock` must outlive it.
  explicit ConnectionTable(const Limits& limits, const Clock& clock = Clock::System())
      : limits_(limits), clock_(clock) {}

  // Counts a socket that was just accepted, unless there are too many. Closed
  // connections are detected when a limit is reached, at most every
  // kPruneInterval.
  Verdict Admit(int socket, const sockaddr_storage& peer);

  // Ends the connection from this remote end: gRPC, which uses it too, finds it closed. Its host
  // gets no further one for kPenalty, so that it cannot continue on a new connection.
  // False if no such connection is open, or if this has ended it before.
  bool ShutDown(const RemoteAddress& remote);

  // The remote ends, the newest first, of the connections that were admitted within kRecent and are
  // open: at most kMaxRecent.
  std::vector<RemoteAddress> Recent() const;
  static constexpr std::chrono::seconds kRecent{1};
  static constexpr std::size_t kMaxRecent = 4;

  // Between two checks of every connection, which cost a system call for each.
  static constexpr std::chrono::milliseconds kPruneInterval{100};
  // Long enough to free the calls that a closed connection has left behind.
  static constexpr std::chrono::seconds kPenalty{1};

 private:
  struct Entry {
    ino_t inode;
    std::string peer;
    std::optional<RemoteAddress> remote;
    std::chrono::steady_clock::time_point admitted;
  };

  bool IsFull(const std::string& peer) const;
  bool IsPenalised(const std::string& peer) const;
  void Penalise(const std::string& peer);
  void Prune();
  void Remove(int number);

  const Limits limits_;
  const Clock& clock_;
  absl::flat_hash_map<int, Entry> entries_;
  absl::flat_hash_map<std::string, int> by_peer_;
  std::chrono::steady_clock::time_point next_prune_;
  // Until when. At most one for each connection that was ended within kPenalty.
  absl::flat_hash_map<std::string, std::chrono::steady_clock::time_point> penalties_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_CONNECTION_TABLE_H_
