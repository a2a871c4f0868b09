#ifndef IDEMPOTENCY_SERVER_QUEUE_SESSION_WAIT_H_
#define IDEMPOTENCY_SERVER_QUEUE_SESSION_WAIT_H_

#include <memory>

#include "server/files/file_descriptor.h"
#include "server/store/held_session.h"
#include "server/store/record_store.h"

namespace idempotency::internal {

// The wait of one idle thread, for a session that it holds of a store or for another thread.
//
// Wake() is thread-safe; the other methods belong to the thread, but that another one may begin a
// call through session() while the thread is in Await().
class SessionWait {
 public:
  SessionWait();
  SessionWait(const SessionWait&) = delete;
  SessionWait& operator=(const SessionWait&) = delete;

  // Takes a session, if the store has one to spare. Does not wait.
  void Hold(RecordStore& store);
  void Release() { session_.reset(); }
  bool holds() const { return session_ != nullptr; }
  HeldSession& session() { return *session_; }

  // Returns at an event of the session, which must be held, after Wake(), and when the store
  // requests the session; without a cause, too.
  void Await();
  // Also before Await().
  void Wake() const;

 private:
  // -1 while the process has no descriptor left: then no session is held.
  const FileDescriptor wake_;
  std::unique_ptr<HeldSession> session_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_SESSION_WAIT_H_
