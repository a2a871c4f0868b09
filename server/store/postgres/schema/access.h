#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_ACCESS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_ACCESS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "server/store/postgres/options.h"

namespace idempotency::internal {

// The rights of the logins of a store, before it serves: what they lack, and what they have in
// excess. The schema exists.
//
//   FAILED_PRECONDITION  a login lacks a right that the store needs, or acts as another role, or
//   the
//                        login for maintenance leads to another schema, database or server; with
//                        what to do
//   Others               as PostgresConnection::Open
// Logs a warning, with what to do, for each login that has more rights than it needs, and for each
// connection over a network that others can read or whose other end is not verified; also where the
// server logs parameters, or does not track what sessions do; and, unless options.read_only, for
// each setting of the server with which acknowledged commits can be lost. What only
// administrators need, and is lacking, is logged as information.
absl::Status CheckPostgresAccess(const PostgresOptions& options);

// The settings of the server on which it depends whether an acknowledged commit can be lost.
struct PostgresDurability {
  bool fsync = true;
  bool full_page_writes = true;
  // A commit waits for a standby: synchronous_standby_names is not empty.
  bool waits_for_standby = false;
  // The URL names several servers: another one may become the primary.
  bool fails_over = false;
};

// What to warn of.
std::vector<std::string> DurabilityWarnings(const PostgresDurability& durability);

// The way to the server.
struct PostgresTransport {
  // A unix socket, or an address of this machine.
  bool local = false;
  bool encrypted = false;
  // The name and the authority of the server's certificate are checked.
  bool verified = false;
};

// What to warn of; empty for none.
std::string TransportWarning(const PostgresTransport& transport);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_ACCESS_H_
