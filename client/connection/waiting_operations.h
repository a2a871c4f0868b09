#ifndef IDEMPOTENCY_CLIENT_CONNECTION_WAITING_OPERATIONS_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_WAITING_OPERATIONS_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

#include "client/connection/outstanding_operation.h"

namespace idempotency::internal {

// The operations of a session that are to be sent, in sending order: those that
// end admitted work (completions, releases, extensions), then reservations and
// reads. Each kind in the order of its requests. They are owned elsewhere.
//
// Not thread-safe.
class WaitingOperations {
 public:
  void Add(OutstandingOperation& operation) { QueueOf(operation).push_back(&operation); }
  // Adds operations that were sent before and have to be sent again, ahead of the others.
  void PutBack(std::vector<OutstandingOperation*> operations);

  // The next one, or nullptr; without `limited_too` no reservation or read.
  OutstandingOperation* First(bool limited_too) const;
  void RemoveFirst(const OutstandingOperation& first) { QueueOf(first).pop_front(); }
  // Removes the operations whose deadline has passed.
  void RemoveExpired(std::chrono::steady_clock::time_point now);

  bool empty() const { return urgent_.empty() && limited_.empty(); }
  std::size_t size() const { return urgent_.size() + limited_.size(); }
  // Reservations and reads among them.
  std::size_t limited() const { return limited_.size(); }

 private:
  using Queue = std::deque<OutstandingOperation*>;

  Queue& QueueOf(const OutstandingOperation& operation) {
    return operation.limited ? limited_ : urgent_;
  }

  Queue urgent_;
  Queue limited_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_WAITING_OPERATIONS_H_
