#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_STORE_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_STORE_H_

#include <vector>

#include "grpc_idempotency/client/connection.h"
#include "server/store/forwarding_store.h"
#include "tests/conformance/store_behind.h"

namespace idempotency::internal {

// A service as a store: every operation is a call on a connection. The calls of one batch are sent
// together, and their answers have the same indices.
//
// These bypass the wire, which has no field for them:
//   Sweep, EndUnknown, MeasureUsage, Inspect
//                         have no method: the store behind answers.
//   List, Resolve, Purge, Reseal, ReadAudit
//                         are of another service, which a client has no connection for: the
//                         store behind answers; admin_service_test has the wire.
//   ids that are forced   passed to the store behind; the errors come by wire.
//   ReserveOp::window     the same, unless it is the service's.
//   ReserveOp::only_existing
//                         the same: the service sets it by its configuration.
//   Reserved::took_over, after_expiry, repeated; OutcomeUnknown::marked;
//   Completion::lease_overrun, repeated
//                         are for counting: read from the store behind.
//
// Where the wire deliberately differs from a store, the line of the list of stores has the
// difference (StoreUnderTest).
//
// A call that is answered twice or never fails the test.
//
// Thread-safe.
class WireStore final : public ForwardingAdmin {
 public:
  // Both outlive this. `behind` is the store of the service that the connection
  // leads to.
  WireStore(Connection& connection, StoreBehind& behind)
      : ForwardingAdmin(behind), connection_(connection), behind_(behind) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;

 private:
  // `method` of the connection, once for each operation.
  template <typename Answer, typename Op, typename Request, typename Response>
  std::vector<Answer> SendAll(absl::Span<const Op> ops,
                              void (Connection::*method)(const Request&, Connection::Deadline,
                                                         Connection::Callback<Response>));

  Connection& connection_;
  StoreBehind& behind_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_STORE_H_
