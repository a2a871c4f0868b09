#ifndef IDEMPOTENCY_SERVER_PROCESS_PORT_PROBE_H_
#define IDEMPOTENCY_SERVER_PROCESS_PORT_PROBE_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/process/listening_sockets.h"
#include "server/service/stop_latch.h"

namespace idempotency::internal {

// Connects to the process's own port from time to time, so that a process that runs
// without accepting connections is detected and can be replaced. Destruction stops
// it.
class PortProbe {
 public:
  struct Intervals {
    // Between two checks. If clients connected meanwhile no attempt is needed.
    absl::Duration between = absl::Seconds(10);
    // The time within which a connection must be accepted.
    absl::Duration timeout = absl::Seconds(20);
  };

  // `address` is for the message. `accepted`: how many connections to `bound` were accepted so far.
  // `on_deaf` is called at most once, on the probe's thread, with what to do: if the port refuses a
  // connection, or accepts none within the timeout.
  PortProbe(NetworkAddress address, const SocketAddress& bound, const Intervals& intervals,
            std::function<std::uint64_t()> accepted,
            std::function<void(const absl::Status&)> on_deaf);
  ~PortProbe();
  PortProbe(const PortProbe&) = delete;
  PortProbe& operator=(const PortProbe&) = delete;

 private:
  enum class Result { kAccepts, kDeaf, kUnknown };

  void Run();
  Result Probe(std::uint64_t before);

  const NetworkAddress address_;
  const SocketAddress bound_;
  const Intervals intervals_;
  const std::function<std::uint64_t()> accepted_;
  const std::function<void(const absl::Status&)> on_deaf_;
  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_PORT_PROBE_H_
