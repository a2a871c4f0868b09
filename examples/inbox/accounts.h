#ifndef IDEMPOTENCY_EXAMPLES_INBOX_ACCOUNTS_H_
#define IDEMPOTENCY_EXAMPLES_INBOX_ACCOUNTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "examples/inbox/database.h"

namespace inbox {

// Balances in the consumer's own database, in which a message with two effects would show.
//
// Every deposit leaves a row under the record of its work, in the transaction that changes the
// balance. So a second attempt of that work finds the first one's deposit and does not make
// another, however the first one ended: that ties effect and record together.
//
// Every method returns UNAVAILABLE if the file cannot be used; INTERNAL if the commit of a deposit
// is uncertain. Thread-compatible.
class Accounts {
 public:
  static absl::StatusOr<Accounts> Open(const std::string& path);

  // Makes an account without money; an existing one stays unchanged.
  absl::Status OpenAccount(const std::string& account);

  // The balance after this deposit, also if an earlier attempt made it.
  //   INVALID_ARGUMENT  the amount is not more than 0
  //   NOT_FOUND         no such account
  absl::StatusOr<std::int64_t> Deposit(const std::string& record_id, const std::string& account,
                                       std::int64_t amount_cents);

  struct Account {
    std::int64_t balance_cents = 0;
    int deposits = 0;
  };
  // By name.
  absl::StatusOr<std::map<std::string, Account>> All();

  // Called after every committed deposit, before Deposit() returns.
  void OnCommitted(std::function<void()> callback) { committed_ = std::move(callback); }

 private:
  explicit Accounts(Database database) : database_(std::move(database)) {}

  Database database_;
  std::function<void()> committed_ = [] {};
};

}  // namespace inbox

#endif  // IDEMPOTENCY_EXAMPLES_INBOX_ACCOUNTS_H_
