#ifndef GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_OPTIONS_H_
#define GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"

namespace idempotency {

// What can be set of the service wherever it runs: in idempotencyd, whose flags
// have these names, or embedded in another program.
struct ServiceOptions {
  static constexpr int kMaxStoreConnections = 64;
  static constexpr absl::Duration kMinSweepInterval = absl::Milliseconds(100);
  static constexpr absl::Duration kMaxSweepInterval = absl::Hours(24);

  static constexpr int kMinQueueMib = 32;
  static constexpr int kMaxQueueMib = 64 * 1024;

  // One for each processor, from 2 to 4: more calls at the store than there are
  // processors to serve them are no faster together, and each is slower.
  static int DefaultStoreConnections();

  // Connections to Postgres for calls, which share them in batches, so that few are
  // enough: 1 to 64. One more sweeps and one more watches. SQLite always has one
  // writer.
  int store_connections = DefaultStoreConnections();
  // Between two passes that remove forgotten records: 100 ms to 24 h. One
  // process sweeps a Postgres schema at a time.
  absl::Duration sweep_interval = absl::Minutes(1);
  // What may be held for callers, in MiB: 32 to 65,536. Operations that are queued or
  // being done, those that wait, and replies until they have been written. Over it
  // reservations and replays are refused (server/memory_budget.h). At least four times
  // the largest reply, so that some of them go out together.
  int queue_mib = static_cast<int>(limits::kDefaultQueuedBytes / (1024 * 1024));
  // When a session asks its client to go on with another one (docs/session.md). Only
  // a server whose connections end by age has a use for it.
  absl::Duration session_age = absl::InfiniteDuration();
};

// OK, or INVALID_ARGUMENT naming the option that is out of its range.
absl::Status ValidateServiceOptions(const ServiceOptions& options);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_OPTIONS_H_
