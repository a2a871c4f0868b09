#ifndef IDEMPOTENCY_SERVER_PROCESS_TESTING_DAEMON_H_
#define IDEMPOTENCY_SERVER_PROCESS_TESTING_DAEMON_H_

#include <memory>

#include "absl/status/statusor.h"

#include "server/process/command_line.h"
#include "server/process/grpc_listener.h"
#include "server/process/logging_metrics.h"
#include "server/process/stop_request.h"
#include "server/worlds/testing_service.h"
#include "server/worlds/world_router.h"
#include "server/worlds/worlds.h"

namespace idempotency::internal {

// `idempotencyd serve-testing`, without the process around it: worlds in memory, on 127.0.0.1.
// Not thread-safe: one thread starts and destroys it.
class TestingDaemon {
 public:
  // Returns once it serves. FAILED_PRECONDITION if the port cannot be used. `stop` is requested
  // if clients can no longer connect; it must outlive the daemon.
  static absl::StatusOr<std::unique_ptr<TestingDaemon>> Start(const ServeTestingOptions& options,
                                                              StopRequest* stop);
  // Answers waiting calls, and cancels those that have not ended within a second.
  ~TestingDaemon();
  TestingDaemon(const TestingDaemon&) = delete;
  TestingDaemon& operator=(const TestingDaemon&) = delete;

  const NetworkAddress& listen_address() const { return listener_->address(); }

 private:
  TestingDaemon() = default;

  LoggingMetrics metrics_;
  Worlds worlds_{metrics_};
  WorldRouter router_{worlds_};
  TestingService testing_{worlds_};
  std::unique_ptr<GrpcListener> listener_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_TESTING_DAEMON_H_
