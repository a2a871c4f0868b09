#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_BOUNDS_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_BOUNDS_H_

#include <cstddef>

#include "core/mutex.h"
#include "grpc_idempotency/limits.h"
#include "interceptors/ext_proc/service/processor_events.h"

namespace idempotency::internal {

// The limits of all exchanges together: their number, and the bytes that they hold. Thread-safe.
class ExchangeBounds {
 public:
  struct Limits {
    std::size_t exchanges = limits::kMaxExchanges;
    std::size_t bytes = limits::kMaxExchangeBytes;
  };

  // `events` outlives it.
  ExchangeBounds(const Limits& limits, ProcessorEvents& events)
      : limits_(limits), events_(events) {}

  // One more exchange; false: there is no place, and nothing is counted.
  bool Enter();
  // Changes what one exchange holds from `before` to `now` bytes. False if all of them then hold
  // too much: the exchange must hold less, and is counted in any case.
  bool Hold(std::size_t before, std::size_t now);
  void Leave(std::size_t held);

 private:
  const Limits limits_;
  ProcessorEvents& events_;
  Mutex mutex_;
  std::size_t exchanges_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_BOUNDS_H_
