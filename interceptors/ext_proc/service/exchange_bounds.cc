#include "interceptors/ext_proc/service/exchange_bounds.h"

namespace idempotency::internal {

bool ExchangeBounds::Enter() {
  MutexLock lock(mutex_);
  if (exchanges_ >= limits_.exchanges) return false;
  ++exchanges_;
  events_.Holds(exchanges_, bytes_);
  return true;
}

bool ExchangeBounds::Hold(std::size_t before, std::size_t now) {
  MutexLock lock(mutex_);
  bytes_ += now;
  bytes_ -= before;
  events_.Holds(exchanges_, bytes_);
  return now <= before || bytes_ <= limits_.bytes;
}

void ExchangeBounds::Leave(std::size_t held) {
  MutexLock lock(mutex_);
  --exchanges_;
  bytes_ -= held;
  events_.Holds(exchanges_, bytes_);
}

}  // namespace idempotency::internal
