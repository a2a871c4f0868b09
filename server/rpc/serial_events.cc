#include "server/rpc/serial_events.h"

namespace idempotency::internal {

void SerialEvents::Bring(Event& event, bool ok) {
  {
    MutexLock lock(mutex_);
    brought_.push_back({&event, ok});
    if (reacting_) return;
    reacting_ = true;
  }
  bool destroyed = false;
  destroyed_ = &destroyed;
  for (Brought next; TakeNext(next);) {
    next.event->React(next.ok);
    if (destroyed) return;
  }
}

bool SerialEvents::TakeNext(Brought& next) {
  MutexLock lock(mutex_);
  reacting_ = !brought_.empty();
  if (!reacting_) {
    destroyed_ = nullptr;
    return false;
  }
  next = brought_.front();
  brought_.erase(brought_.begin());
  return true;
}

}  // namespace idempotency::internal
