#ifndef IDEMPOTENCY_SERVER_TENANTS_NAMESPACE_SETTINGS_H_
#define IDEMPOTENCY_SERVER_TENANTS_NAMESPACE_SETTINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

// The settings of one namespace, as the configuration file states them
// (idempotency/config/v1/config.proto). A value type.
struct NamespaceSettings {
  // Reservations and reads per second, at each replica; nullopt: no limit.
  std::optional<double> max_rate;
  // As many may come at once after a pause. Without effect without a rate.
  std::uint32_t burst = 1;
  // Unanswered reservations and reads, at each replica.
  std::optional<std::uint32_t> max_in_flight;
  // The part of them that wait for a running attempt.
  std::optional<std::uint32_t> max_waiting;

  // Live records, and bytes of their replies, of all replicas together.
  std::optional<std::int64_t> max_records;
  std::optional<std::int64_t> max_reply_bytes;

  // The bounds of a reservation's retention, and the retention of one that sets none.
  absl::Duration min_retention = limits::kMinRetention;
  absl::Duration max_retention = limits::kMaxRetention;
  absl::Duration default_retention = limits::kDefaultRetention;
  // How old an unknown UUIDv7 key may be.
  absl::Duration window = limits::kDefaultWindow;
  // How long a record may be UNKNOWN; nullopt: for ever.
  std::optional<absl::Duration> unknown_life;
  // An unknown UUIDv7 key from before is expired; nullopt: none is.
  std::optional<absl::Time> not_before;
};

// By name; a namespace that is not listed has the defaults.
using NamespaceSettingsMap = std::map<std::string, NamespaceSettings>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TENANTS_NAMESPACE_SETTINGS_H_
