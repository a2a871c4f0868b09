#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_SERVICE_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "grpc_idempotency/client/connection_factory.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/idempotency_service.h"
#include "server/store/record_store.h"
#include "server/testing/counting_observer.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {

// The service over a store, and one connection to it: on a unix socket, or that of an embedded
// service. The store has its own clock; deadlines are the machine's. Thread-safe once made.
class WireService {
 public:
  enum class Kind { kSession, kUnary, kDirect };

  // `store` outlives this.
  WireService(RecordStore& store, Kind kind);
  // No call may be under way.
  ~WireService();
  WireService(const WireService&) = delete;
  WireService& operator=(const WireService&) = delete;

  Connection& connection() { return *connection_; }
  CountingObserver& observer() { return observer_; }

 private:
  std::unique_ptr<Connection> Serve(ConnectionOptions::Kind kind);
  static BatcherOptions Batching();
  static IdempotencyServiceOptions Service();

  testing::TempFolder folder_;
  CountingObserver observer_;
  Batcher batcher_;
  InFlightWaiters waiters_;
  IdempotencyService service_;
  // Null for a direct connection.
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_SERVICE_H_
