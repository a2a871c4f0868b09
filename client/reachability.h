#ifndef IDEMPOTENCY_CLIENT_REACHABILITY_H_
#define IDEMPOTENCY_CLIENT_REACHABILITY_H_

#include <grpcpp/support/status.h>

#include <atomic>

#include "absl/status/status.h"

namespace idempotency {

// What the callers of a Connection are told about calls that failed, and what
// the log is: when the daemon goes and when it comes back, once each, since a
// line per failed call would bury it. Thread-safe.
class Reachability {
 public:
  // The daemon answered.
  void Answered();

  // How a call that ended with `status` is answered. A status of the catalogue
  // as it is; any other is STORE_UNAVAILABLE, since no verdict could be had. Its
  // message names the status code alone: gRPC's text, which may hold addresses,
  // goes to the log.
  absl::Status Failed(const grpc::Status& status);

 private:
  std::atomic<bool> reachable_{true};
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLIENT_REACHABILITY_H_
