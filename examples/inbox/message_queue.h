#ifndef IDEMPOTENCY_EXAMPLES_INBOX_MESSAGE_QUEUE_H_
#define IDEMPOTENCY_EXAMPLES_INBOX_MESSAGE_QUEUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "examples/inbox/database.h"

namespace inbox {

struct Message {
  // The queue's own number for it.
  std::int64_t number = 0;
  // The producer's: the same when it sends the same message again.
  std::string id;
  std::string body;
  // 1 for the first.
  int deliveries = 0;
};

// A minimal at-least-once queue in a SQLite file: a received message is invisible for a while, and
// is delivered again unless it is acknowledged meanwhile. Several processes may share the file.
// Every method returns UNAVAILABLE if the file cannot be used. Thread-compatible.
class MessageQueue {
 public:
  static absl::StatusOr<MessageQueue> Open(const std::string& path, absl::Duration invisibility);

  absl::Status Send(const std::string& id, const std::string& body);
  // nullopt when nothing is visible.
  absl::StatusOr<std::optional<Message>> Receive();
  // It is not delivered again.
  absl::Status Acknowledge(const Message& message);
  // It is not delivered again, and is kept for inspection.
  absl::Status SetAside(const Message& message, const std::string& why);

  // Those that are not acknowledged, visible or not.
  absl::StatusOr<int> Waiting();
  absl::StatusOr<int> Aside();

 private:
  MessageQueue(Database database, absl::Duration invisibility)
      : database_(std::move(database)), invisibility_(invisibility) {}

  absl::StatusOr<int> Count(const char* sql);

  Database database_;
  absl::Duration invisibility_;
};

}  // namespace inbox

#endif  // IDEMPOTENCY_EXAMPLES_INBOX_MESSAGE_QUEUE_H_
