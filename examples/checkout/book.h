#ifndef IDEMPOTENCY_EXAMPLES_CHECKOUT_BOOK_H_
#define IDEMPOTENCY_EXAMPLES_CHECKOUT_BOOK_H_

#include <sqlite3.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace checkout {

// The work of one server, in a SQLite file: every run of a handler, and every effect. A commit is
// on disk before it is answered. Thread-safe; several processes may have it open.
class Book {
 public:
  struct Entry {
    std::string record_id;
    std::string text;
  };

  static absl::StatusOr<std::unique_ptr<Book>> Open(const std::string& path);

  // A handler began.
  absl::Status Begin(const std::string& record_id, std::uint32_t attempt);
  // The effect of an operation; `what` describes it. Its primary key is the record id, the same for
  // every attempt: after an attempt that crashed after its commit the next one inserts nothing
  // here. An effect that may happen once for several operations has an id of its own instead.
  absl::Status Enter(const std::string& record_id, const std::string& what);
  // True if there is an effect with this id.
  absl::StatusOr<bool> Has(const std::string& record_id);

  // In the order in which they were written. A run's text is its attempt.
  absl::StatusOr<std::vector<Entry>> Runs();
  absl::StatusOr<std::vector<Entry>> Effects();

 private:
  struct Closer {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  using Handle = std::unique_ptr<sqlite3, Closer>;

  explicit Book(Handle db) : db_(std::move(db)) {}
  // Two columns of text, if `sql` returns any rows.
  absl::StatusOr<std::vector<Entry>> Run(const char* sql,
                                         std::initializer_list<std::string> parameters = {});

  std::mutex mutex_;
  const Handle db_;
};

}  // namespace checkout

#endif  // IDEMPOTENCY_EXAMPLES_CHECKOUT_BOOK_H_
