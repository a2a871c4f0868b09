#include "examples/payments/ledger.h"

#include <optional>
#include <string_view>
#include <utility>

namespace payments {
namespace {

// The CHECKs are the last safeguard: with any fault in the code above them, no account goes below
// zero and no entry has the amount 0.
constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS accounts (
  name          TEXT PRIMARY KEY CHECK (name <> ''),
  balance_cents INTEGER NOT NULL CHECK (balance_cents >= 0)
) STRICT;
CREATE TABLE IF NOT EXISTS entries (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  account      TEXT NOT NULL REFERENCES accounts (name),
  amount_cents INTEGER NOT NULL CHECK (amount_cents <> 0),
  kind         TEXT NOT NULL CHECK (kind IN ('charge', 'refund')),
  refunds      INTEGER REFERENCES entries (id),
  note         TEXT NOT NULL,
  record_id    TEXT NOT NULL,
  attempt      INTEGER NOT NULL,
  at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  CHECK ((kind = 'charge') = (amount_cents < 0)),
  CHECK ((kind = 'refund') = (refunds IS NOT NULL))
) STRICT;
CREATE TABLE IF NOT EXISTS postings (
  record_id     TEXT PRIMARY KEY CHECK (record_id <> ''),
  entry_id      INTEGER NOT NULL REFERENCES entries (id),
  balance_cents INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS entries_by_account ON entries (account, id);
CREATE INDEX IF NOT EXISTS entries_by_charge ON entries (refunds) WHERE refunds IS NOT NULL;
)sql";

constexpr int kBusyTimeoutMs = 5000;

absl::Status NothingMoved() {
  return absl::UnavailableError("the ledger cannot be used right now; nothing has moved");
}

bool Run(sqlite3* db, const char* sql) {
  return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

// One prepared statement. It keeps the first failure: bind and step without checks, then call
// failed().
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    rc_ = sqlite3_prepare_v2(db, sql, -1, &handle_, nullptr);
  }
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(std::int64_t value) {
    if (!failed()) rc_ = sqlite3_bind_int64(handle_, ++bound_, value);
    return *this;
  }
  Statement& Bind(std::string_view text) {
    if (!failed()) {
      rc_ = sqlite3_bind_text(handle_, ++bound_, text.data(), static_cast<int>(text.size()),
                              SQLITE_TRANSIENT);
    }
    return *this;
  }
  Statement& BindNull() {
    if (!failed()) rc_ = sqlite3_bind_null(handle_, ++bound_);
    return *this;
  }

  // True when there is a row to read; false at the end and after a failure.
  bool Next() {
    if (!failed()) rc_ = sqlite3_step(handle_);
    return rc_ == SQLITE_ROW;
  }
  bool failed() const { return rc_ != SQLITE_OK && rc_ != SQLITE_ROW && rc_ != SQLITE_DONE; }

  std::int64_t Int(int column) const { return sqlite3_column_int64(handle_, column); }
  std::string Text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
    return text == nullptr ? std::string()
                           : std::string(text, sqlite3_column_bytes(handle_, column));
  }

 private:
  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
  int rc_ = SQLITE_OK;
};

// A write transaction that is rolled back unless it was committed. IMMEDIATE: its reads stay valid
// until its writes.
class Transaction {
 public:
  explicit Transaction(sqlite3* db) : db_(db), open_(Run(db, "BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (open_) Run(db_, "ROLLBACK");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  bool open() const { return open_; }

  absl::Status Commit() {
    if (Run(db_, "COMMIT")) {
      open_ = false;
      return absl::OkStatus();
    }
    // A COMMIT that found the file locked left the transaction open and can be rolled back. One
    // that failed in the middle of its writing cannot be distinguished from a successful one.
    if (sqlite3_errcode(db_) == SQLITE_BUSY) return NothingMoved();
    open_ = sqlite3_get_autocommit(db_) == 0;
    return absl::InternalError("the ledger failed while writing; the money may have moved");
  }

 private:
  sqlite3* const db_;
  bool open_;
};

absl::Status CheckAmount(std::int64_t amount_cents) {
  if (amount_cents > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("amount_cents must be more than 0");
}

// nullopt for an unknown account.
absl::StatusOr<std::optional<std::int64_t>> ReadBalance(sqlite3* db, const std::string& account) {
  Statement select(db, "SELECT balance_cents FROM accounts WHERE name = ?1");
  select.Bind(account);
  if (select.Next()) return select.Int(0);
  if (select.failed()) return NothingMoved();
  return std::nullopt;
}

// The new balance; nullopt if the account does not exist or would go below 0.
absl::StatusOr<std::optional<std::int64_t>> AddToBalance(sqlite3* db, const std::string& account,
                                                         std::int64_t amount_cents) {
  Statement update(db,
                   "UPDATE accounts SET balance_cents = balance_cents + ?1"
                   " WHERE name = ?2 AND balance_cents + ?1 >= 0 RETURNING balance_cents");
  update.Bind(amount_cents).Bind(account);
  if (update.Next()) return update.Int(0);
  if (update.failed()) return NothingMoved();
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path) {
  sqlite3* raw = nullptr;
  // NOMUTEX: the ledger's own mutex protects every use.
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int rc = sqlite3_open_v2(path.c_str(), &raw, kFlags, nullptr);
  Handle db(raw);
  if (rc != SQLITE_OK) return absl::UnavailableError("the ledger's file cannot be opened");
  sqlite3_busy_timeout(db.get(), kBusyTimeoutMs);
  // A synchronous=FULL commit is on disk before it is answered, in WAL mode too.
  const bool ready = Run(db.get(), "PRAGMA journal_mode = WAL") &&
                     Run(db.get(), "PRAGMA synchronous = FULL") &&
                     Run(db.get(), "PRAGMA foreign_keys = ON") && Run(db.get(), kSchema);
  if (!ready) return absl::UnavailableError("the ledger's file cannot be prepared");
  return std::unique_ptr<Ledger>(new Ledger(std::move(db)));
}

absl::Status Ledger::OpenAccount(const std::string& account, std::int64_t balance_cents) {
  if (account.empty() || balance_cents < 0) {
    return absl::InvalidArgumentError("an account has a name and a balance of 0 or more");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Statement insert(db_.get(),
                   "INSERT INTO accounts (name, balance_cents) VALUES (?1, ?2)"
                   " ON CONFLICT (name) DO NOTHING");
  insert.Bind(account).Bind(balance_cents);
  insert.Next();
  return insert.failed() ? NothingMoved() : absl::OkStatus();
}

absl::StatusOr<Ledger::Posting> Ledger::Charge(const std::string& account,
                                               std::int64_t amount_cents, const std::string& note,
                                               const Origin& origin) {
  if (absl::Status amount = CheckAmount(amount_cents); !amount.ok()) return amount;
  const std::lock_guard<std::mutex> lock(mutex_);
  Transaction transaction(db_.get());
  if (!transaction.open()) return NothingMoved();
  const auto earlier = Find(origin);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **earlier;

  const auto known = ReadBalance(db_.get(), account);
  if (!known.ok()) return known.status();
  if (!known->has_value()) return absl::NotFoundError("no such account");
  const auto balance = AddToBalance(db_.get(), account, -amount_cents);
  if (!balance.ok()) return balance.status();
  if (!balance->has_value()) return absl::FailedPreconditionError("declined: not enough money");

  auto posting = Insert(account, -amount_cents, std::nullopt, **balance, note, origin);
  if (!posting.ok()) return posting;
  if (absl::Status committed = transaction.Commit(); !committed.ok()) return committed;
  return posting;
}

absl::StatusOr<Ledger::Posting> Ledger::Refund(std::int64_t charge_id, std::int64_t amount_cents,
                                               const std::string& note, const Origin& origin) {
  if (absl::Status amount = CheckAmount(amount_cents); !amount.ok()) return amount;
  const std::lock_guard<std::mutex> lock(mutex_);
  Transaction transaction(db_.get());
  if (!transaction.open()) return NothingMoved();
  const auto earlier = Find(origin);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **earlier;

  Statement charge(db_.get(),
                   "SELECT account, -amount_cents - (SELECT coalesce(sum(amount_cents), 0)"
                   " FROM entries WHERE refunds = ?1)"
                   " FROM entries WHERE id = ?1 AND kind = 'charge'");
  charge.Bind(charge_id);
  if (!charge.Next()) {
    return charge.failed() ? NothingMoved() : absl::NotFoundError("no such charge");
  }
  const std::string account = charge.Text(0);
  if (amount_cents > charge.Int(1)) {
    return absl::FailedPreconditionError("declined: more than is left of the charge");
  }
  const auto balance = AddToBalance(db_.get(), account, amount_cents);
  if (!balance.ok()) return balance.status();
  if (!balance->has_value()) return absl::NotFoundError("no such account");

  auto posting = Insert(account, amount_cents, charge_id, **balance, note, origin);
  if (!posting.ok()) return posting;
  if (absl::Status committed = transaction.Commit(); !committed.ok()) return committed;
  return posting;
}

absl::StatusOr<std::optional<Ledger::Posting>> Ledger::Find(const Origin& origin) {
  if (origin.record_id.empty()) return std::nullopt;
  Statement select(db_.get(), "SELECT entry_id, balance_cents FROM postings WHERE record_id = ?1");
  select.Bind(origin.record_id);
  if (select.Next()) return Posting{select.Int(0), select.Int(1)};
  if (select.failed()) return NothingMoved();
  return std::nullopt;
}

absl::StatusOr<Ledger::Posting> Ledger::Insert(const std::string& account,
                                               std::int64_t amount_cents,
                                               std::optional<std::int64_t> refunds,
                                               std::int64_t balance_cents, const std::string& note,
                                               const Origin& origin) {
  Statement insert(db_.get(),
                   "INSERT INTO entries (account, amount_cents, kind, refunds, note, record_id,"
                   " attempt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING id");
  insert.Bind(account).Bind(amount_cents);
  if (refunds.has_value()) {
    insert.Bind("refund").Bind(*refunds);
  } else {
    insert.Bind("charge").BindNull();
  }
  insert.Bind(note).Bind(origin.record_id).Bind(std::int64_t{origin.attempt});
  if (!insert.Next()) return NothingMoved();
  const Posting posting{insert.Int(0), balance_cents};
  if (origin.record_id.empty()) return posting;
  Statement claim(db_.get(),
                  "INSERT INTO postings (record_id, entry_id, balance_cents) VALUES (?1, ?2, ?3)");
  claim.Bind(origin.record_id).Bind(posting.entry_id).Bind(posting.balance_cents);
  claim.Next();
  if (claim.failed()) return NothingMoved();
  return posting;
}

absl::StatusOr<std::int64_t> Ledger::Balance(const std::string& account) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto balance = ReadBalance(db_.get(), account);
  if (!balance.ok()) return balance.status();
  if (!balance->has_value()) return absl::NotFoundError("no such account");
  return **balance;
}

absl::StatusOr<std::vector<Ledger::Entry>> Ledger::Entries(const std::string& account, int limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Statement select(db_.get(),
                   "SELECT id, amount_cents, note, record_id, attempt, at FROM entries"
                   " WHERE account = ?1 ORDER BY id DESC LIMIT ?2");
  select.Bind(account).Bind(std::int64_t{limit});
  std::vector<Entry> entries;
  while (select.Next()) {
    entries.push_back({select.Int(0), select.Int(1), select.Text(2),
                       Origin{select.Text(3), static_cast<std::uint32_t>(select.Int(4))},
                       select.Text(5)});
  }
  if (select.failed()) return NothingMoved();
  return entries;
}

}  // namespace payments
