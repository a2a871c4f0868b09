#include "client/connection/waiting_operations.h"

#include <algorithm>

namespace idempotency::internal {

void WaitingOperations::PutBack(std::vector<OutstandingOperation*> operations) {
  std::sort(operations.begin(), operations.end(),
            [](const auto* a, const auto* b) { return a->id > b->id; });
  for (OutstandingOperation* operation : operations) QueueOf(*operation).push_front(operation);
}

OutstandingOperation* WaitingOperations::First(bool limited_too) const {
  if (!urgent_.empty()) return urgent_.front();
  return limited_too && !limited_.empty() ? limited_.front() : nullptr;
}

void WaitingOperations::RemoveExpired(std::chrono::steady_clock::time_point now) {
  const auto expired = [&](const auto* operation) { return operation->deadline <= now; };
  for (Queue* queue : {&urgent_, &limited_}) {
    queue->erase(std::remove_if(queue->begin(), queue->end(), expired), queue->end());
  }
}

}  // namespace idempotency::internal
