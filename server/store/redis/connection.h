#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_CONNECTION_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_CONNECTION_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/redis/options.h"
#include "server/store/redis/reply.h"
#include "server/store/redis/server.h"
#include "server/store/redis/socket.h"

struct redisReader;

namespace idempotency::internal {

// A connection to one server: commands go out together, and their replies come back in their
// order. A connection on which a reply was late is closed: a later command would get it.
//
// Thread-compatible.
class RedisConnection {
 public:
  using TimePoint = RedisSocket::TimePoint;

  // For records: logged in, the scripts loaded, and the server checked (CheckRedisServer).
  //   UNAVAILABLE          It cannot be reached, does not answer in time, or refuses the login.
  //   FAILED_PRECONDITION  It must not hold records.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisAddress& address,
                                                               const RedisOptions& options);
  // For questions to a Sentinel.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> OpenSentinel(const RedisAddress& address,
                                                                       const RedisOptions& options);
  // For questions to a node of a Cluster, whatever its state.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> OpenNode(const RedisAddress& address,
                                                                   const RedisOptions& options);
  ~RedisConnection();

  const RedisAddress& address() const { return address_; }
  // The server's description of itself when the connection was opened.
  const RedisServer& server() const { return server_; }

  // A command (RedisWire) for the next Exchange.
  void Send(std::string_view wire);
  // Sends on all connections and receives, until each has the replies of its commands, is closed,
  // or the deadline has passed; then those that wait are closed.
  static void Exchange(absl::Span<RedisConnection* const> connections, TimePoint deadline);
  // The reply of the first command that has none yet; nullopt if there was none.
  std::optional<RedisReply> Take();

  // Open, and nothing is outstanding. Notices that the server has closed it meanwhile.
  bool Usable();
  // The same without a look at the socket.
  bool Intact() const;

 private:
  RedisConnection(RedisAddress address, std::unique_ptr<RedisSocket> socket);

  // Logged in, and nothing else.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> OpenAs(const RedisAddress& address,
                                                                 const RedisOptions& options,
                                                                 const std::string& user,
                                                                 const RedisSecret& secret,
                                                                 TimePoint deadline);
  absl::Status Begin(const RedisOptions& options, TimePoint deadline);
  absl::Status LogIn(const std::string& user, const RedisSecret& secret, TimePoint deadline);
  // One command; an error of the server is UNAVAILABLE.
  absl::StatusOr<RedisReply> Call(std::string_view wire, TimePoint deadline);

  bool Waits() const { return socket_ != nullptr && (outstanding_ > 0 || sent_ < out_.size()); }
  // The events of poll() without which it cannot continue.
  short Events() const;
  // Reads and writes all that is possible now.
  void Move();
  void WriteSome();
  void ReadSome();
  bool TakeReplies();
  void Close();

  struct FreeReader {
    void operator()(redisReader* reader) const;
  };

  const RedisAddress address_;
  std::unique_ptr<RedisSocket> socket_;
  std::unique_ptr<redisReader, FreeReader> reader_;
  RedisServer server_;
  std::string out_;
  std::size_t sent_ = 0;
  bool write_wants_read_ = false;
  bool read_wants_write_ = false;
  std::size_t outstanding_ = 0;
  // Since the last whole reply.
  std::size_t received_ = 0;
  std::deque<RedisReply> replies_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_CONNECTION_H_
