#include "server/store/postgres/options.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "server/store/limits.h"

namespace idempotency::internal {
namespace {

// Never needs quotes, and fits Postgres' limit of 63 bytes.
bool IsPlainName(const std::string& name) {
  if (name.empty() || name.size() > 63 || absl::ascii_isdigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

}  // namespace

PostgresOptions MaintenanceOptions(const PostgresOptions& options) {
  PostgresOptions maintenance = options;
  maintenance.url = options.maintenance_url;
  maintenance.maintenance_url.clear();
  const char* const password = std::getenv(kMaintenancePasswordVariable);
  if (password != nullptr) maintenance.password = password;
  maintenance.connections = kPostgresMaintenanceConnections;
  return maintenance;
}

absl::Status ValidatePostgresOptions(const PostgresOptions& options) {
  if (options.url.empty()) return absl::InvalidArgumentError("postgres url: must not be empty");
  if (!IsPlainName(options.schema) || options.schema.compare(0, 3, "pg_") == 0) {
    return absl::InvalidArgumentError(
        "postgres schema: lower-case letters, digits and _ only, at most 63, not pg_…; one alone "
        "where search_path names it");
  }
  if (options.connections < 1 || options.connections > 1000) {
    return absl::InvalidArgumentError("postgres connections: must be between 1 and 1000");
  }
  if (options.max_abandoned_sessions < 1) {
    return absl::InvalidArgumentError("postgres max_abandoned_sessions: must be at least 1");
  }
  if (options.clock_margin < absl::ZeroDuration() ||
      options.clock_margin > limits::kClockStepMargin) {
    return absl::InvalidArgumentError(absl::StrCat("postgres clock margin: must be between 0 and ",
                                                   absl::FormatDuration(limits::kClockStepMargin)));
  }
  if (options.commit_proof < absl::ZeroDuration() || options.commit_proof > absl::Hours(1)) {
    return absl::InvalidArgumentError("postgres commit_proof: must be between 0 and 1 h");
  }
  for (const absl::Duration timeout :
       {options.connect_timeout, options.statement_timeout, options.reply_grace,
        options.probe_timeout, options.nodes_timeout, options.nodes_proof, options.locked_pause,
        options.unreadable_pause, options.lock_timeout, options.idle_in_transaction_timeout,
        options.acquire_timeout, options.min_backoff, options.max_backoff}) {
    if (timeout < absl::Milliseconds(1) || timeout > absl::Hours(1)) {
      return absl::InvalidArgumentError("postgres timeouts: must be between 1 ms and 1 h");
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
