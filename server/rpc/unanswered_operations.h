#ifndef IDEMPOTENCY_SERVER_RPC_UNANSWERED_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_RPC_UNANSWERED_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "server/queue/in_flight_waiters.h"
#include "server/rpc/request_frame.h"
#include "server/rpc/unanswered_operation.h"

namespace idempotency::internal {

// The operations of one session, by their ids. Not thread-safe.
class UnansweredOperations {
 public:
  // `max_in_flight` as in SessionOptions.
  explicit UnansweredOperations(std::size_t max_in_flight) : max_in_flight_(max_in_flight) {}

  // Takes the operations of a frame. Those above the limit get a refusal. INVALID_ARGUMENT if the
  // frame uses an id that is in use; then none of its operations is here.
  absl::Status Add(RequestFrame& frame);
  // Ends one, which must be here. The caller destroys it.
  std::unique_ptr<UnansweredOperation> Remove(std::uint64_t id);

  // The waiter of the reservation with this id; nullptr if none waits.
  InFlightWaiters::WaiterPtr WaiterOf(std::uint64_t id) const;
  // In their order of arrival.
  std::vector<InFlightWaiters::WaiterPtr> Waiters() const;

  bool empty() const { return operations_.empty(); }
  std::size_t size() const { return operations_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t max_in_flight_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<UnansweredOperation>> operations_;
  std::size_t bytes_ = 0;
  // Reservations and reads among them.
  std::size_t limited_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNANSWERED_OPERATIONS_H_
