#ifndef IDEMPOTENCY_SERVER_RPC_SERIAL_EVENTS_H_
#define IDEMPOTENCY_SERVER_RPC_SERIAL_EVENTS_H_

#include <cstddef>

#include "absl/container/inlined_vector.h"

#include "core/mutex.h"
#include "server/rpc/event_loop.h"

namespace idempotency::internal {

// The events of one call, which several threads take from its queue
// (server/rpc/inline_write_scope.h): one after the other, each on a thread that brings one of them.
// No thread waits for another.
//
// Thread-safe.
class SerialEvents {
 public:
  class Event;

  SerialEvents() = default;
  // Within a reaction, or without one.
  ~SerialEvents() {
    if (destroyed_ != nullptr) *destroyed_ = true;
  }
  SerialEvents(const SerialEvents&) = delete;
  SerialEvents& operator=(const SerialEvents&) = delete;

 private:
  struct Brought {
    Event* event = nullptr;
    bool ok = false;
  };

  void Bring(Event& event, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if no event is left; then no thread is reacting.
  bool TakeNext(Brought& next) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  bool reacting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::InlinedVector<Brought, 4> brought_ ABSL_GUARDED_BY(mutex_);
  // On the stack of the thread that reacts.
  bool* destroyed_ = nullptr;
};

// One kind of event of the call; it happens again only after its reaction.
class SerialEvents::Event : public QueueEvent {
 public:
  // `events` outlives it.
  explicit Event(SerialEvents& events) : events_(events) {}
  void Happened(bool ok) final { events_.Bring(*this, ok); }
  // In its turn. May destroy the call with its events.
  virtual void React(bool ok) = 0;

 protected:
  ~Event() = default;

 private:
  SerialEvents& events_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SERIAL_EVENTS_H_
