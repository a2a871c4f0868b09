#include "examples/inbox/message_queue.h"

#include "absl/time/clock.h"

namespace inbox {
namespace {

// Times are Unix milliseconds.
constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS messages (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL CHECK (id <> ''),
  body       BLOB NOT NULL,
  visible_at INTEGER NOT NULL DEFAULT 0,
  deliveries INTEGER NOT NULL DEFAULT 0,
  set_aside  TEXT
);
)sql";

absl::Status Unusable() { return absl::UnavailableError("the queue cannot be used right now"); }

}  // namespace

absl::StatusOr<MessageQueue> MessageQueue::Open(const std::string& path,
                                                absl::Duration invisibility) {
  absl::StatusOr<Database> database = Database::Open(path, kSchema);
  if (!database.ok()) return database.status();
  return MessageQueue(*std::move(database), invisibility);
}

absl::Status MessageQueue::Send(const std::string& id, const std::string& body) {
  Statement insert(database_, "INSERT INTO messages (id, body) VALUES (?1, ?2)");
  return insert.Bind(id).Bind(body).Finish() ? absl::OkStatus() : Unusable();
}

absl::StatusOr<std::optional<Message>> MessageQueue::Receive() {
  const std::int64_t now = absl::ToUnixMillis(absl::Now());
  Statement take(database_,
                 "UPDATE messages SET visible_at = ?1, deliveries = deliveries + 1"
                 " WHERE number = (SELECT number FROM messages WHERE set_aside IS NULL"
                 "                 AND visible_at <= ?2 ORDER BY visible_at, number LIMIT 1)"
                 " RETURNING number, id, body, deliveries");
  take.Bind(now + absl::ToInt64Milliseconds(invisibility_)).Bind(now);
  std::optional<Message> message;
  if (take.Next()) {
    message = Message{take.Int(0), take.Text(1), take.Text(2), static_cast<int>(take.Int(3))};
  }
  // It is delivered once the statement has ended.
  if (!take.Finish()) return Unusable();
  return message;
}

absl::Status MessageQueue::Acknowledge(const Message& message) {
  Statement remove(database_, "DELETE FROM messages WHERE number = ?1");
  return remove.Bind(message.number).Finish() ? absl::OkStatus() : Unusable();
}

absl::Status MessageQueue::SetAside(const Message& message, const std::string& why) {
  Statement update(database_, "UPDATE messages SET set_aside = ?1 WHERE number = ?2");
  return update.Bind(why).Bind(message.number).Finish() ? absl::OkStatus() : Unusable();
}

absl::StatusOr<int> MessageQueue::Waiting() {
  return Count("SELECT count(*) FROM messages WHERE set_aside IS NULL");
}

absl::StatusOr<int> MessageQueue::Aside() {
  return Count("SELECT count(*) FROM messages WHERE set_aside IS NOT NULL");
}

absl::StatusOr<int> MessageQueue::Count(const char* sql) {
  Statement count(database_, sql);
  if (!count.Next()) return Unusable();
  return static_cast<int>(count.Int(0));
}

}  // namespace inbox
