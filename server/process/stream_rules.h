#ifndef IDEMPOTENCY_SERVER_PROCESS_STREAM_RULES_H_
#define IDEMPOTENCY_SERVER_PROCESS_STREAM_RULES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/process/socket_streams.h"
#include "server/rpc/remote_address.h"

namespace idempotency::internal {

// Decides which connections hold too many calls that no code has seen yet:
//
//   * one with more streams than the server allows: gRPC 1.51 enforces its limit only once the
//     client has acknowledged it;
//   * one whose streams fail faster than a client that keeps to the limit can end them: a stream
//     that the client resets at once leaves a call behind;
//   * those of the host with the most such calls, where all together are too many.
//
// Calls that code has seen are bounded by CallTable. They do not count here, but stay open streams
// until they are answered, also where their client has cancelled them.
//
// Thread-compatible.
class StreamRules {
 public:
  struct Limits {
    // The streams of one connection.
    int streams = 0;
    // Calls of all connections that no code has seen.
    int unseen = 0;
  };
  struct Sources {
    // nullopt for a connection that is closed, or that cannot be closed.
    std::function<std::optional<RemoteAddress>(const SocketStreams&)> remote;
    // The calls of a host that code has seen and that have not ended.
    std::function<int(const std::string& host)> open_calls;
  };

  StreamRules(const Limits& limits, Sources sources);

  // The connections to close. `since` is the time since the last call, `all` have all that are
  // open.
  std::vector<RemoteAddress> Over(std::vector<SocketStreams> all,
                                  std::chrono::duration<double> since);

 private:
  struct Host;

  bool HasTooManyOpen(const SocketStreams& streams) const;
  bool FailsTooFast(const SocketStreams& streams, std::chrono::duration<double> since) const;
  absl::flat_hash_map<std::string, Host> ByHost(const std::vector<SocketStreams>& all) const;
  void AppendTheMostUnseen(const std::vector<SocketStreams>& all,
                           std::vector<RemoteAddress>& over) const;

  const Limits limits_;
  const Sources sources_;
  // The streams that had failed at the last call, by connection.
  absl::flat_hash_map<std::int64_t, std::int64_t> failed_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_STREAM_RULES_H_
