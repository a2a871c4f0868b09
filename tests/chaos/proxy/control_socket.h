#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_CONTROL_SOCKET_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_CONTROL_SOCKET_H_

#include <list>
#include <string>
#include <utility>

#include "tests/chaos/proxy/control.h"
#include "tests/chaos/proxy/file_descriptor.h"
#include "tests/chaos/proxy/poll_set.h"

namespace idempotency::internal::chaos {

// Reads lines from any number of connections, each answered by one line. Closes a connection that
// does not read the answers, or sends lines without end. Thread-compatible.
class ControlSocket {
 public:
  ControlSocket(FileDescriptor listener, const Control& control)
      : listener_(std::move(listener)), control_(control) {}

  void AddTo(PollSet& poll);
  void Work(const PollSet& poll);

 private:
  struct Peer {
    FileDescriptor socket;
    std::string line;
    PollSet::Slot slot = PollSet::kNone;
  };

  void Read(Peer& peer);
  bool Send(const Peer& peer, const std::string& answer);

  FileDescriptor listener_;
  PollSet::Slot slot_ = PollSet::kNone;
  Control control_;
  std::list<Peer> peers_;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_CONTROL_SOCKET_H_
