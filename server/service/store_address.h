#ifndef IDEMPOTENCY_SERVER_SERVICE_STORE_ADDRESS_H_
#define IDEMPOTENCY_SERVER_SERVICE_STORE_ADDRESS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "server/store/postgres/options.h"

namespace idempotency::internal {

// The store of the daemon, from --store. A value type.
//
// There is no address for a store in memory: a restart would lose every record,
// and the operation of a lost record runs twice.
struct StoreAddress {
  // More than the clocks of nodes differ that keep the time by NTP.
  static constexpr absl::Duration kDefaultClockMargin = absl::Seconds(1);

  enum class Kind { kSqlite, kPostgres, kRedis };

  Kind kind = Kind::kSqlite;
  // kSqlite: the file's path. kPostgres: the URI as libpq takes it; it may hold
  // a password, so it is passed only to the store. kRedis: the URL (ParseRedisUrl).
  std::string location;
  // kPostgres: the same for the login with which sweeps run and administrators change records.
  // Empty: `location`.
  std::string maintenance;
  // kRedis: RedisOptions::accept_empty.
  bool accept_empty = false;
  // kPostgres: nullopt chooses by the schema (ChooseStatements).
  std::optional<PostgresStatementMode> statements;
  // kPostgres: PostgresOptions::clock_margin where statements are for single rows.
  absl::Duration clock_margin = kDefaultClockMargin;

  // Understands sqlite:PATH, postgresql://..., postgres://..., and redis://... with its
  // variants. Parses the text only: opens and connects to nothing. INVALID_ARGUMENT
  // names the fault and never quotes a URI, which may hold a password.
  static absl::StatusOr<StoreAddress> Parse(absl::string_view text);

  // For logs and messages: without user, password and parameters.
  std::string Display() const;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_STORE_ADDRESS_H_
