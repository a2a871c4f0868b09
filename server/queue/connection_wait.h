#ifndef IDEMPOTENCY_SERVER_QUEUE_CONNECTION_WAIT_H_
#define IDEMPOTENCY_SERVER_QUEUE_CONNECTION_WAIT_H_

#include <memory>

#include "server/files/file_descriptor.h"
#include "server/store/held_connection.h"
#include "server/store/record_store.h"

namespace idempotency::internal {

// The wait of one idle thread, for a connection that it holds of a store or for another thread.
//
// Wake() is thread-safe; the other methods belong to the thread, but that another one may begin a
// call through connection() while the thread is in Await().
class ConnectionWait {
 public:
  ConnectionWait();
  ConnectionWait(const ConnectionWait&) = delete;
  ConnectionWait& operator=(const ConnectionWait&) = delete;

  // Takes a connection, if the store has one to spare. Does not wait.
  void Hold(RecordStore& store);
  void Release() { connection_.reset(); }
  bool holds() const { return connection_ != nullptr; }
  HeldConnection& connection() { return *connection_; }

  // Returns at an event of the connection, which must be held, after Wake(), and when the store
  // requests the connection; without a cause, too.
  void Await();
  // Also before Await().
  void Wake() const;

 private:
  // -1 while the process has no descriptor left: then no connection is held.
  const FileDescriptor wake_;
  std::unique_ptr<HeldConnection> connection_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_CONNECTION_WAIT_H_
