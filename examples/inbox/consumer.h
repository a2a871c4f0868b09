#ifndef IDEMPOTENCY_EXAMPLES_INBOX_CONSUMER_H_
#define IDEMPOTENCY_EXAMPLES_INBOX_CONSUMER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "examples/inbox/accounts.h"
#include "examples/inbox/message_queue.h"
#include "grpc_idempotency/server_guard/server_guard.h"

namespace inbox {

// Takes deposits from a queue that delivers each at least once, and makes each exactly once. Any
// number of consumers, in any number of processes, may share the queue. Thread-compatible; its
// arguments outlive it.
class Consumer {
 public:
  // `lease`: the delay until another attempt follows one whose process crashed.
  Consumer(MessageQueue& queue, Accounts& accounts, idempotency::ServerGuard& guard,
           absl::Duration lease)
      : queue_(queue), accounts_(accounts), guard_(guard), lease_(lease) {}

  // Takes the next message, if one is visible. True if there was one.
  absl::StatusOr<bool> Next();

 private:
  // OK: it is done, and need not be delivered again.
  absl::Status Consume(const Message& message);

  MessageQueue& queue_;
  Accounts& accounts_;
  idempotency::ServerGuard& guard_;
  const absl::Duration lease_;
};

}  // namespace inbox

#endif  // IDEMPOTENCY_EXAMPLES_INBOX_CONSUMER_H_
