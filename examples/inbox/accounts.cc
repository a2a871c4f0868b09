#include "examples/inbox/accounts.h"

namespace inbox {
namespace {

constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS accounts (
  name          TEXT PRIMARY KEY CHECK (name <> ''),
  balance_cents INTEGER NOT NULL DEFAULT 0 CHECK (balance_cents >= 0)
);
CREATE TABLE IF NOT EXISTS deposits (
  record_id     TEXT PRIMARY KEY,
  account       TEXT NOT NULL REFERENCES accounts (name),
  amount_cents  INTEGER NOT NULL CHECK (amount_cents > 0),
  balance_cents INTEGER NOT NULL
);
)sql";

absl::Status Unusable() {
  return absl::UnavailableError("the accounts cannot be used right now; nothing was deposited");
}

}  // namespace

absl::StatusOr<Accounts> Accounts::Open(const std::string& path) {
  absl::StatusOr<Database> database = Database::Open(path, kSchema);
  if (!database.ok()) return database.status();
  return Accounts(*std::move(database));
}

absl::Status Accounts::OpenAccount(const std::string& account) {
  Statement insert(database_, "INSERT INTO accounts (name) VALUES (?1) ON CONFLICT DO NOTHING");
  return insert.Bind(account).Finish() ? absl::OkStatus() : Unusable();
}

absl::StatusOr<std::int64_t> Accounts::Deposit(const std::string& record_id,
                                               const std::string& account,
                                               std::int64_t amount_cents) {
  if (amount_cents <= 0) return absl::InvalidArgumentError("the amount must be more than 0");
  Transaction transaction(database_);
  if (!transaction.open()) return Unusable();

  Statement made(database_, "SELECT balance_cents FROM deposits WHERE record_id = ?1");
  made.Bind(record_id);
  if (made.Next()) return made.Int(0);
  if (made.failed()) return Unusable();

  Statement add(database_,
                "UPDATE accounts SET balance_cents = balance_cents + ?1 WHERE name = ?2"
                " RETURNING balance_cents");
  add.Bind(amount_cents).Bind(account);
  if (!add.Next()) return add.failed() ? Unusable() : absl::NotFoundError("no such account");
  const std::int64_t balance_cents = add.Int(0);
  // Its key would prevent a second deposit of the same record at the latest here.
  Statement note(database_,
                 "INSERT INTO deposits (record_id, account, amount_cents, balance_cents)"
                 " VALUES (?1, ?2, ?3, ?4)");
  note.Bind(record_id).Bind(account).Bind(amount_cents).Bind(balance_cents);
  if (!add.Finish() || !note.Finish()) return Unusable();
  if (!transaction.Commit()) return absl::InternalError("the deposit may have been made");
  committed_();
  return balance_cents;
}

absl::StatusOr<std::map<std::string, Accounts::Account>> Accounts::All() {
  Statement select(database_,
                   "SELECT name, balance_cents, (SELECT count(*) FROM deposits"
                   " WHERE account = name) FROM accounts");
  std::map<std::string, Account> accounts;
  while (select.Next()) {
    accounts[select.Text(0)] = Account{select.Int(1), static_cast<int>(select.Int(2))};
  }
  if (select.failed()) return Unusable();
  return accounts;
}

}  // namespace inbox
