#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_OPTIONS_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "core/clock.h"

namespace idempotency::internal {

struct RedisAddress {
  std::string host;
  int port = 0;

  // HOST:PORT, with brackets around an IPv6 address.
  std::string ToString() const;
  friend bool operator==(const RedisAddress& a, const RedisAddress& b) {
    return a.host == b.host && a.port == b.port;
  }
  friend bool operator<(const RedisAddress& a, const RedisAddress& b) {
    return a.host != b.host ? a.host < b.host : a.port < b.port;
  }
};

// HOST:PORT, HOST, or [IPV6]:PORT; nullopt if it is none of them.
absl::StatusOr<RedisAddress> ParseRedisAddress(absl::string_view text, int default_port);

// A secret that is read for each new connection: from a file, which may change, else from an
// environment variable. Empty: none.
struct RedisSecret {
  std::string file;
  std::string variable;

  // UNAVAILABLE if the file cannot be read. A newline at its end is not part of the secret.
  absl::StatusOr<std::string> Read() const;
};

// How to reach Redis 6 or newer, or Valkey.
struct RedisOptions {
  enum class Mode {
    // One server.
    kSingle,
    // The master that Sentinels name.
    kSentinel,
    // The masters of a Cluster, each for its slots.
    kCluster,
  };

  Mode mode = Mode::kSingle;
  // The server, the Sentinels, or nodes of the Cluster from which the others are found.
  std::vector<RedisAddress> addresses;
  // The name under which Sentinels know the master.
  std::string master;
  // Not with kCluster, which has only 0.
  int database = 0;
  // The user of Redis's access control lists; empty: the default user.
  std::string user;
  RedisSecret password{"", "REDIS_PASSWORD"};
  RedisSecret sentinel_password{"", "REDIS_SENTINEL_PASSWORD"};

  bool tls = false;
  // PEM files, read for each new connection. Empty `ca`: the authorities of the system. The
  // server's certificate must name the address by which it is reached.
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;

  // All keys of the store begin with it.
  std::string prefix = "idempotency";
  // Open a store whose markers are missing (RedisIdentity), and write them: a new one, or one that
  // lost its data. Otherwise it is refused.
  bool accept_empty = false;
  // Connections to each server that one process opens, at most.
  int connections = 4;

  // One attempt to connect, with TLS and the login.
  absl::Duration connect_timeout = absl::Seconds(2);
  // All commands of one call together. Then the connections that did not answer are closed, so
  // that a late answer is never taken for another; what they did is unknown.
  absl::Duration command_timeout = absl::Seconds(5);
  // How long a call waits for a free connection.
  absl::Duration acquire_timeout = absl::Seconds(2);
  // The pauses between attempts to connect (Backoff).
  absl::Duration min_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Milliseconds(500);

  // An answer counts once this many replicas have received what it is based on (WAIT).
  int wait_replicas = 0;
  // As well once the server, and those replicas, have it in their append-only files (WAITAOF,
  // Redis 7.2).
  bool wait_aof = false;
  // In addition to command_timeout.
  absl::Duration wait_timeout = absl::Seconds(1);

  // The store's clock; nullptr: the clock of each server. Only tests change it.
  const Clock* clock = nullptr;

  bool waits() const { return wait_replicas > 0 || wait_aof; }
};

// OK, or INVALID_ARGUMENT that names the option.
absl::Status ValidateRedisOptions(const RedisOptions& options);

// Whether the text begins with one of the schemes below.
bool IsRedisUrl(absl::string_view text);

// The options of a URL (docs/redis.md):
//
//   redis://[USER@]HOST[:PORT][/DATABASE][?NAME=VALUE[&NAME=VALUE]...]
//   redis+sentinel://[USER@]HOST[:PORT][,HOST[:PORT]]...[/DATABASE]?master=NAME[&...]
//   redis+cluster://[USER@]HOST[:PORT][,HOST[:PORT]]...[?...]
//
// and the same with rediss, for TLS. INVALID_ARGUMENT names the fault, and never quotes the URL,
// which may hold a password by mistake. A password is refused: others can read command lines.
absl::StatusOr<RedisOptions> ParseRedisUrl(absl::string_view url);

// The URL of the options without user and parameters, for logs.
std::string DisplayRedis(const RedisOptions& options);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_OPTIONS_H_
