#ifndef GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_OPTIONS_H_
#define GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"

namespace idempotency {

// The options that the service has both in idempotencyd and embedded in another program.
// idempotencyd has a flag of the same name for each, except for session_age. A value type.
struct ServiceOptions {
  static constexpr int kMaxStoreConnections = 64;
  static constexpr absl::Duration kMinSweepInterval = absl::Milliseconds(100);
  static constexpr absl::Duration kMaxSweepInterval = absl::Hours(24);

  static constexpr int kMinQueueMib = 32;
  static constexpr int kMaxQueueMib = 64 * 1024;

  // One for each processor, between 2 and 4: more concurrent store calls than processors do not
  // finish sooner in total, and each call becomes slower.
  static int DefaultStoreConnections();

  // Connections to Postgres or Redis for calls, 1 to 64. Calls share them in batches, so few are
  // enough. One more connection sweeps, one watches the store, and one serves administrators.
  // SQLite always has one writer.
  int store_connections = DefaultStoreConnections();
  // The time between two passes that remove expired records: 100 ms to 24 h. Only one process
  // sweeps a Postgres schema at a time, except with single-row statements (docs/scaling.md).
  absl::Duration sweep_interval = absl::Minutes(1);
  // The memory for callers' data, in MiB: 32 to 65,536. It counts operations that are queued or
  // in progress, waiting operations, and replies until they are written. Above it reservations
  // and replays are refused (docs/limits.md). At least four times the largest reply,
  // so that several can be sent at once.
  int queue_mib = static_cast<int>(limits::kDefaultQueuedBytes / (1024 * 1024));
  // On Postgres, reservations of callers that request it are answered before they are durable
  // (MethodPolicy::relaxed_reservation): a crash of Postgres may lose them. Only methods with a
  // completion ledger request it, and only their own records are affected; so it is permitted by
  // default. Without effect on the other stores, which are as durable as ever.
  bool relaxed_reservations = true;
  // The age at which a session makes its client change to a new session (docs/session.md). Only
  // a server whose connections end by age needs it: in idempotencyd it is half of
  // --connection_grace. Infinite: never.
  absl::Duration session_age = absl::InfiniteDuration();
};

// OK, or INVALID_ARGUMENT, whose message names the option that is out of range.
absl::Status ValidateServiceOptions(const ServiceOptions& options);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_OPTIONS_H_
