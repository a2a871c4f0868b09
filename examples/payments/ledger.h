#ifndef IDEMPOTENCY_EXAMPLES_PAYMENTS_LEDGER_H_
#define IDEMPOTENCY_EXAMPLES_PAYMENTS_LEDGER_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace payments {

// Balances and every movement of money, in the payments service's own database: one SQLite file,
// WAL, synchronous=FULL. A movement is on disk when its method returns.
//
// It cannot determine which calls belong together: a charge that arrives twice without a record is
// taken twice. Movements of one idempotency record are one: the record id is a primary key, and a
// later movement under it gets the first posting, as it must where a second execution is declared
// to be acceptable.
//
// Every method returns UNAVAILABLE when the database failed and nothing moved (it was locked for 5
// s, the disk is full), and INTERNAL when it failed so late that the money may have moved.
//
// Thread-safe.
class Ledger {
 public:
  // The guarded execution that moves the money; without a record id there is none.
  struct Origin {
    std::string record_id;
    std::uint32_t attempt = 0;
  };
  struct Posting {
    std::int64_t entry_id = 0;
    // After the movement.
    std::int64_t balance_cents = 0;
  };
  struct Entry {
    std::int64_t id = 0;
    // Negative for a charge.
    std::int64_t amount_cents = 0;
    std::string note;
    Origin origin;
    // RFC 3339, UTC.
    std::string at;
  };

  // Opens the file, or creates it.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(const std::string& path);

  // Makes an account; an existing one keeps its balance. INVALID_ARGUMENT for a negative balance.
  absl::Status OpenAccount(const std::string& account, std::int64_t balance_cents);

  //   INVALID_ARGUMENT     the amount is not more than 0
  //   NOT_FOUND            no such account
  //   FAILED_PRECONDITION  not enough money
  absl::StatusOr<Posting> Charge(const std::string& account, std::int64_t amount_cents,
                                 const std::string& note, const Origin& origin);
  //   INVALID_ARGUMENT     the amount is not more than 0
  //   NOT_FOUND            no such charge
  //   FAILED_PRECONDITION  more than the rest of the charge
  absl::StatusOr<Posting> Refund(std::int64_t charge_id, std::int64_t amount_cents,
                                 const std::string& note, const Origin& origin);

  // NOT_FOUND for an unknown account.
  absl::StatusOr<std::int64_t> Balance(const std::string& account);
  // Newest first, at most `limit`; none for an unknown account.
  absl::StatusOr<std::vector<Entry>> Entries(const std::string& account, int limit);

 private:
  struct Closer {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  using Handle = std::unique_ptr<sqlite3, Closer>;

  explicit Ledger(Handle db) : db_(std::move(db)) {}

  // With mutex_ held. `refunds` is the charge that a refund gives back.
  // The posting of an earlier execution of the same record.
  absl::StatusOr<std::optional<Posting>> Find(const Origin& origin);
  absl::StatusOr<Posting> Insert(const std::string& account, std::int64_t amount_cents,
                                 std::optional<std::int64_t> refunds, std::int64_t balance_cents,
                                 const std::string& note, const Origin& origin);

  // Before every use of db_.
  std::mutex mutex_;
  const Handle db_;
};

}  // namespace payments

#endif  // IDEMPOTENCY_EXAMPLES_PAYMENTS_LEDGER_H_
