#ifndef IDEMPOTENCY_SERVER_RPC_UNANSWERED_OPERATION_H_
#define IDEMPOTENCY_SERVER_RPC_UNANSWERED_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

#include "grpc_idempotency/deadline.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/access/access_control.h"
#include "server/operation/operations.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/gathered_answers.h"

namespace idempotency::internal {

// One operation of a session, until its answer is on its way.
//
// An operation of a kind that this server does not know is one, too, and is refused. So its id is
// in use until its answer is on its way, and the stream stays.
class UnansweredOperation {
 public:
  // The values that a stream gives to each operation of a frame.
  struct Origin {
    GatheredAnswers::Stream& stream;
    // Without one everything is permitted.
    Caller* caller;
    // Its share of its frame.
    std::size_t bytes;
    SteadyTime arrived;
  };

  // Makes one of any kind but a cancel.
  static std::unique_ptr<UnansweredOperation> Make(const v1::SessionOperation& operation,
                                                   const Origin& origin, SteadyTime deadline);

  UnansweredOperation(std::uint64_t id, std::size_t bytes, bool is_limited)
      : id_(id), bytes_(bytes), is_limited_(is_limited) {}
  virtual ~UnansweredOperation() = default;
  UnansweredOperation(const UnansweredOperation&) = delete;
  UnansweredOperation& operator=(const UnansweredOperation&) = delete;

  std::uint64_t id() const { return id_; }
  std::size_t bytes() const { return bytes_; }
  // Whether it counts for SessionOptions::max_in_flight.
  bool is_limited() const { return is_limited_; }
  // The waiter of a reservation that waits, or is on its way to the store; otherwise nullptr.
  virtual InFlightWaiters::WaiterPtr waiting() const = 0;
  // Puts it into the group; it may be over, and this destroyed, afterwards.
  virtual void Begin(Operations& operations, const v1::SessionOperation& operation,
                     Batcher::Group& group) = 0;
  // In place of Begin().
  virtual void Refuse(Operations& operations, const absl::Status& why) = 0;

 private:
  const std::uint64_t id_;
  const std::size_t bytes_;
  const bool is_limited_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNANSWERED_OPERATION_H_
