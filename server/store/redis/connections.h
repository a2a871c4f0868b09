#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_CONNECTIONS_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/redis/connection.h"
#include "server/store/redis/identity.h"
#include "server/store/redis/options.h"
#include "server/store/redis/reply.h"
#include "server/store/redis/scripts.h"
#include "server/store/redis/topology.h"

namespace idempotency::internal {

// A command on one key.
struct RedisCall {
  // RedisWire
  std::string wire;
  // The slot of its key.
  int slot = 0;
  // The script that it runs, to be loaded where the server does not know it.
  const RedisScript* script = nullptr;
  // Its answer counts only once the replicas have it (RedisOptions::waits).
  bool confirm = false;
};

// The size of the commands that go out together, within one RedisOptions::command_timeout, unless
// one is larger: large replies of one caller take no time of the commands behind them.
inline constexpr std::size_t kMaxRedisSliceBytes = 4 * 1024 * 1024;
// How many of the first calls go out together; there must be one.
std::size_t FirstSliceOf(absl::Span<const RedisCall> calls);

// Whether the reply to RedisIdentity::WaitWire() confirms that enough servers have what was
// written.
bool IsRedisConfirmed(const RedisReply& reply, const RedisOptions& options);

// A connection to each server that records are on, for one caller at a time.
//
// Thread-compatible; the topology and the identity are shared and outlive it.
class RedisConnections {
 public:
  // How often the commands that a server refers to another one, or whose script it does not
  // know, are sent again.
  static constexpr int kMaxRounds = 5;

  // With the connection to the server, unless there are several.
  static absl::StatusOr<std::unique_ptr<RedisConnections>> Open(const RedisOptions& options,
                                                                RedisTopology& topology,
                                                                const RedisIdentity& identity);

  // Tries a server of a Cluster that failed, another one each time, of which calls hold no
  // connection meanwhile: one that is back serves again with the next call.
  static void TryFailed(const RedisOptions& options, RedisTopology& topology,
                        const RedisIdentity& identity);

  // Sends the commands, those of a slice for one server together, and returns their replies in
  // their order.
  //   UNAVAILABLE  No answer: it may or may not have been done. Or the server did not do it.
  //   DATA_LOSS    The key holds no record.
  std::vector<absl::StatusOr<RedisReply>> Run(absl::Span<const RedisCall> calls);
  // Whether the commands of the last Run() took effect in their order: one server, and none of them
  // was sent again.
  bool ran_in_order() const { return ran_in_order_; }

  // Logs what a crash of the server would lose (RedisDurabilityWarnings).
  void WarnOfLosses(const RedisAddress& server);
  // The only server, when it answered the last Run(). Not for a Cluster.
  const RedisAddress& answered_by() const { return answered_by_; }
  // Closes connections to former servers of a Cluster, and those that the server has closed: they
  // would stay for as long as no call is for them.
  void CloseUnused();

  // False if others should be opened instead.
  bool Usable();
  // The same without a look at the socket.
  bool Intact() const;

 private:
  struct Pending;
  struct Exchange;

  RedisConnections(const RedisOptions& options, RedisTopology& topology,
                   const RedisIdentity& identity)
      : options_(options), topology_(topology), identity_(identity) {}

  // Notes the result.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(const RedisAddress& address,
                                                                  const RedisOptions& options,
                                                                  RedisTopology& topology,
                                                                  const RedisIdentity& identity);
  absl::StatusOr<RedisConnection*> ConnectionTo(const RedisAddress& address);
  // Adds a reply for each.
  void RunSlice(absl::Span<const RedisCall> calls,
                std::vector<absl::StatusOr<RedisReply>>& replies);
  // Returns the number of servers.
  std::size_t RunRound(absl::Span<const RedisCall> calls, std::vector<Pending>& pending,
                       std::vector<std::optional<absl::StatusOr<RedisReply>>>& answers);
  void Queue(const RedisCall& call, const Pending& next, Exchange& exchange);
  void Collect(absl::Span<const RedisCall> calls, Exchange& exchange, std::vector<Pending>& again,
               std::vector<std::optional<absl::StatusOr<RedisReply>>>& answers);
  // The server's refusal of a call: what to do instead, nullopt if nothing.
  std::optional<Pending> Redirected(const RedisAddress& server, const RedisCall& call,
                                    const Pending& before, std::string_view error);
  absl::Status Failure(const RedisAddress& server, std::string_view error);

  const RedisOptions& options_;
  RedisTopology& topology_;
  const RedisIdentity& identity_;
  std::map<RedisAddress, std::unique_ptr<RedisConnection>> connections_;
  // RedisTopology::demotions() before the connection to the one server was opened.
  std::int64_t demotions_ = 0;
  bool ran_in_order_ = false;
  RedisAddress answered_by_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_CONNECTIONS_H_
