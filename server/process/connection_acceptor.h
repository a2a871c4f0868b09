#ifndef IDEMPOTENCY_SERVER_PROCESS_CONNECTION_ACCEPTOR_H_
#define IDEMPOTENCY_SERVER_PROCESS_CONNECTION_ACCEPTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

#include "core/mutex.h"
#include "server/files/file_descriptor.h"
#include "server/observability/observer.h"
#include "server/process/connection_table.h"
#include "server/process/listening_sockets.h"

namespace idempotency::internal {

// Accepts connections on its own thread and passes them on. gRPC 1.51 does that
// itself until accept() fails once, for example because the process has no descriptor
// left, and then never again (CVE-2023-4785).
//
// Here a lack of descriptors or memory costs the connection that arrives at that moment:
// it is accepted with a reserved descriptor and closed, so that its client notices.
// Destruction stops the thread and the listening.
class ConnectionAcceptor {
 public:
  struct Callbacks {
    // Takes over the connection `socket`, which was accepted on
    // `listening_socket`. On the acceptor's thread; returns soon.
    std::function<void(int socket, int listening_socket)> connected;
    // The sockets can no longer be used, and no further connection is accepted. At most
    // once, on the acceptor's thread.
    std::function<void(const absl::Status&)> failed;
  };

  // `observer` must outlive it.
  ConnectionAcceptor(ListeningSockets sockets, const ConnectionTable::Limits& limits,
                     Callbacks callbacks, Observer& observer);
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  const NetworkAddress& address() const { return sockets_.address(); }
  // Connections that were passed on, or refused because of the limits or for want of a descriptor.
  // Thread-safe.
  std::uint64_t accepted() const { return accepted_.load(std::memory_order_relaxed); }

  // The remote ends of ConnectionTable::Recent(), such as "192.0.2.1:4000". Thread-safe.
  std::vector<std::string> RecentPeers() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the connection from this remote end, if there is one, because its client does not keep to
  // the number of streams; its host gets no other for ConnectionTable::kPenalty. Thread-safe.
  void CloseForStreams(const RemoteAddress& remote) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The error of accept().
  enum class Outcome { kConnection, kNoneLeft, kNoResources, kFailed };

  void Run();
  // False once the sockets have failed.
  bool AcceptFrom(int listening_socket);
  Outcome Accept(int listening_socket);
  ConnectionTable::Verdict Admit(int socket, const sockaddr_storage& peer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeConnection(FileDescriptor socket, const sockaddr_storage& peer, int listening_socket);
  void Shed(int listening_socket);

  const ListeningSockets sockets_;
  const Callbacks callbacks_;
  Observer& observer_;
  std::atomic<std::uint64_t> accepted_{0};
  // Readable once the thread is to end.
  const FileDescriptor stop_;

  Mutex mutex_;
  ConnectionTable table_ ABSL_GUARDED_BY(mutex_);

  // The thread's own.
  FileDescriptor spare_;
  bool out_of_resources_ = false;

  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_CONNECTION_ACCEPTOR_H_
