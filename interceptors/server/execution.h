#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency {

// What a handler may know and say about its own guarded execution. Thread-safe;
// valid until the handler's reply has been sent.
class Execution {
 public:
  virtual ~Execution() = default;

  // The execution that `context` belongs to; nullptr in an unguarded call.
  static Execution* Of(grpc::ServerContextBase* context);

  // 1 for the first run of this record, 2 after one that did not complete, ...
  virtual std::uint32_t attempt() const = 0;
  // The record's id, as in the `idempotency-record` metadata.
  virtual const std::string& record_id() const = 0;
  // True once the reservation is known to be lost, and while the lease has run
  // out: unheard by the store, or after MethodPolicy::max_lease. Another attempt
  // may run. A reply that the store then refuses is never delivered: the caller
  // gets RESERVATION_LOST, and its retry the winner's.
  virtual bool lost() const = 0;

  // What the last attempt stored with Checkpoint(), "" if nothing: what another
  // attempt may go on from. Not what this attempt stores.
  virtual const std::string& checkpoint() const = 0;
  // The record's: what its first reservation gave.
  virtual const std::map<std::string, std::string>& labels() const = 0;

  // Stores how far this attempt has come, in the place of what was stored
  // before: what the next attempt, or the recovery handler, receives if this one
  // dies. Blocks until it is durable; not for gRPC's own threads in the callback
  // API. Counts as a heartbeat.
  //   OK                 durable
  //   REQUEST_INVALID    empty, or over 4 KiB
  //   RESERVATION_LOST   not stored: another attempt may be running, so stop
  //   STORE_UNAVAILABLE  not acknowledged within GuardOptions::recording_timeout.
  //                      It may be stored yet, even after a later one
  virtual absl::Status Checkpoint(std::string_view progress) = 0;
  // The same without blocking. `done` is called once, on a thread of the guard's
  // or inside this call, and must not block. Checkpoints are stored in the order
  // given; with 16 waiting the next is OVERLOADED.
  virtual void Checkpoint(std::string progress, std::function<void(absl::Status)> done) = 0;

  // The handler's word that no effect took place: if it then fails with a code
  // that is not recorded, the reservation is released at once and the next
  // attempt may run. Has no meaning after OK or a recorded code.
  virtual void NothingHappened() = 0;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_H_
