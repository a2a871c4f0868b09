#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_OBSERVER_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/observability/events.h"
#include "server/observability/operation_kind.h"
#include "server/store/namespace_usage.h"
#include "server/store/store_gauges.h"
#include "server/store/sweep_operations.h"
#include "server/store/unknown_records.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// The events that the parts of the service report, so that only one class
// depends on how numbers are published. Every method does nothing by default.
//
// Thread-safe, called from every thread of the service, also with locks held:
// implementations return at once and never call back.
class Observer {
 public:
  virtual ~Observer() = default;

  // The service.

  // An operation was answered, whether it was a unary RPC or an operation of a
  // session. `latency` counts from its arrival.
  virtual void RpcFinished(OperationKind, const absl::Status& /*status*/,
                           absl::Duration /*latency*/) {}
  // The verdict that a caller of Reserve got.
  virtual void VerdictGiven(const Verdict&) {}
  // A key was reused with a different request: a client bug. Called in addition
  // to VerdictGiven. Only loggable values; never the key.
  virtual void MismatchSeen(std::string_view /*name_space*/, std::string_view /*operation*/,
                            const RecordId&) {}

  // An operation was refused by the rules, or its caller is not known.
  virtual void CallerRefused(const RefusedCaller&) {}

  // Administrators.

  // Records were settled or purged; the audit log has it.
  virtual void AdminActed(const AdminAct&) {}

  // The listener.

  // A connection was closed instead of being served.
  virtual void ConnectionRefused(ConnectionRefusal) {}

  // A call was refused because there are too many.
  virtual void CallRefused(CallRefusal) {}

  // New connections get these certificates; of the file's, the one that expires first. Not called
  // without TLS.
  virtual void CertificateLoaded(CertificateUse, const CertificateValidity&) {}

  // Sessions.

  // Streams that are open, after every change.
  virtual void SessionsChanged(std::size_t /*sessions*/) {}
  // A frame was received, with its number of operations; a frame of answers was
  // sent.
  virtual void FrameReceived(std::size_t /*operations*/) {}
  virtual void FrameSent() {}

  // The memory held for callers (server/queue/memory_budget.h), after every change.
  virtual void MemoryHeldChanged(std::size_t /*bytes*/) {}

  // The batcher: the store's answers, also to calls whose callers no longer
  // wait.

  // One store call.
  virtual void BatchDone(OperationKind, std::size_t /*operations*/, absl::Duration /*took*/) {}
  // Operations that wait for a worker, after every change.
  virtual void QueueDepthChanged(std::size_t /*operations*/) {}
  // An operation was refused with OVERLOADED.
  virtual void OperationShed(OperationKind, ShedReason) {}
  // An operation's deadline passed while it was queued.
  virtual void OperationOverdue(OperationKind) {}
  // The store failed on one operation (not: a token that does not match, a
  // record that does not exist, a request that it refuses).
  virtual void StoreFailed(OperationKind, const RecordId&, const absl::Status&) {}
  // A token that no longer holds its reservation was used.
  virtual void ReservationLost(OperationKind) {}
  // A completion arrived after its lease had expired, and was accepted.
  virtual void LeaseOverrun() {}
  // A reservation was granted over one whose lease had expired.
  virtual void TookOver() {}
  // A release, or a reservation over an expired lease, made a record UNKNOWN. Of a release that is
  // repeated, each time. Those of a sweep: SweepStepDone().
  virtual void MarkedUnknown() {}
  // A reservation was granted for a record that had expired.
  virtual void RetriedAfterExpiry() {}
  // A repeated Reserve got the grant that it already had.
  virtual void GrantRepeated() {}
  // A reservation was granted and is not durable yet (ReserveOp::relaxed).
  virtual void GrantRelaxed() {}

  // The in-flight waiters.

  // A caller of Reserve disconnected.
  virtual void CallerLeft() {}
  // Calls that wait for a running attempt, after every change.
  virtual void WaitersChanged(std::size_t /*waiters*/) {}

  // The store.

  // Whether it answered, and its gauges.
  virtual void StoreInspected(const absl::StatusOr<StoreGauges>&) {}
  virtual void ConnectionsChanged(const StoreConnections&) {}

  // The namespaces that the configuration lists, and only these: an operation was admitted, or was
  // not (kWaiting: it was, but its caller does not wait).
  virtual void TenantAdmitted(absl::string_view /*name_space*/) {}
  virtual void QuotaExceeded(absl::string_view /*name_space*/, QuotaLimit) {}

  // The usage of a namespace with a quota.
  virtual void UsageMeasured(absl::string_view /*name_space*/, const NamespaceUsage&) {}

  // The configuration file was read.
  virtual void ConfigRead(bool /*valid*/) {}
  // At start-up: whether a network beyond this machine carries calls in plaintext.
  virtual void PlaintextServed(bool /*exposed*/) {}
  // The key ring's file was read for the first time, or is not as usable as it was: OK, or
  // why the previous ring stays in use.
  virtual void KeyRingRead(const absl::Status&) {}
  // The keys of the ring that is in use from now on.
  virtual void KeyRingUsed(const std::vector<std::uint32_t>& /*key_ids*/) {}

  // Spans of traces were taken by the collector; or not, and are lost.
  virtual void SpansExported(std::size_t /*spans*/) {}
  virtual void SpansDropped(std::size_t /*spans*/) {}

  // The sweeper.

  // A sweeper has started; others do not sweep.
  virtual void SweeperStarted(absl::Duration /*interval*/) {}
  // One step of ending records that had been UNKNOWN for longer than their namespace permits.
  virtual void UnknownEnded(const absl::StatusOr<EndUnknownStep>&) {}
  // One step of a sweep.
  virtual void SweepStepDone(const absl::StatusOr<SweepProgress>&, absl::Duration /*took*/) {}
  // A pass failed, at one step or at several. Once for each, maybe before its end.
  virtual void SweepFailed() {}
  // A pass has read all records, and nothing failed.
  virtual void SweepCompleted() {}
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_OBSERVER_H_
