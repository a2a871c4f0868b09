#include "bench/minimal/record_store.h"

#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"

#include "core/length_prefix.h"

namespace idempotency::internal::bench {
namespace {

constexpr std::size_t kMaxBatch = 256;
// 2000-01-01, where timestamps of Postgres begin.
constexpr std::int64_t kPostgresEpoch = 946684800;
constexpr int kCompleted = 2;

constexpr char kTable[] = R"(
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS minimal_records (
  id uuid PRIMARY KEY,
  token bigint NOT NULL,
  state smallint NOT NULL,
  fingerprint bytea NOT NULL,
  created_at timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,
  reply bytea
) WITH (fillfactor = 28))";
// No plan is made while the table is empty and then kept.
constexpr char kSettings[] = R"(
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_material = off;
SET jit = off)";

struct Statement {
  const char* name;
  const char* text;
};
constexpr Statement kInsertOne = {"insert_one", R"(
INSERT INTO minimal_records (id, token, state, fingerprint, created_at, lease_until, expires_at)
VALUES ($1::uuid, $2::bigint, 1, $3::bytea, now(), now() + interval '30 s', $4::timestamptz)
ON CONFLICT (id) DO NOTHING)"};
constexpr Statement kUpdateOne = {"update_one", R"(
UPDATE minimal_records SET state = 2, completed_at = now(), reply = $3::bytea
WHERE id = $1::uuid AND token = $2::bigint AND state = 1)"};
constexpr Statement kReadOne = {"read_one", R"(
SELECT id, state, fingerprint, expires_at, reply FROM minimal_records WHERE id = $1::uuid)"};
constexpr Statement kReadMany = {"read_many", R"(
SELECT r.id, r.state, r.fingerprint, r.expires_at, r.reply
FROM unnest($1::uuid[]) AS k (id) JOIN minimal_records r ON r.id = k.id)"};
constexpr Statement kInsertMany = {"insert_many", R"(
INSERT INTO minimal_records (id, token, state, fingerprint, created_at, lease_until, expires_at)
SELECT id, token, 1, fingerprint, now(), now() + interval '30 s', expires_at
FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::timestamptz[])
  AS n (id, token, fingerprint, expires_at)
ON CONFLICT (id) DO NOTHING RETURNING id, true)"};
constexpr Statement kUpdateMany = {"update_many", R"(
UPDATE minimal_records r SET state = 2, completed_at = now(), reply = k.reply
FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS k (id, token, reply)
WHERE r.id = k.id AND r.token = k.token AND r.state = 1 RETURNING r.id, false)"};
constexpr Statement kBoth = {"both", R"(
WITH inserted AS (
  INSERT INTO minimal_records (id, token, state, fingerprint, created_at, lease_until, expires_at)
  SELECT id, token, 1, fingerprint, now(), now() + interval '30 s', expires_at
  FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::timestamptz[])
    AS n (id, token, fingerprint, expires_at)
  ON CONFLICT (id) DO NOTHING RETURNING id),
updated AS (
  UPDATE minimal_records r SET state = 2, completed_at = now(), reply = k.reply
  FROM unnest($5::uuid[], $6::bigint[], $7::bytea[]) AS k (id, token, reply)
  WHERE r.id = k.id AND r.token = k.token AND r.state = 1 RETURNING r.id)
SELECT id, true FROM inserted UNION ALL SELECT id, false FROM updated)"};

template <typename T>
std::string_view BytesIn(const T& array) {
  return {reinterpret_cast<const char*>(array.data()), array.size()};
}

void AppendBigEndian64(std::int64_t value, std::string& out) {
  const std::uint64_t swapped = htobe64(static_cast<std::uint64_t>(value));
  out.append(reinterpret_cast<const char*>(&swapped), sizeof(swapped));
}

// Types of columns: their number in Postgres, and how an operation's field is sent.
struct IdColumn {
  static constexpr std::uint32_t kType = 2950;
  static void Append(const Operation& operation, std::string& out) {
    out.append(BytesIn(operation.id.bytes()));
  }
};
struct TokenColumn {
  static constexpr std::uint32_t kType = 20;
  static void Append(const Operation& operation, std::string& out) {
    AppendBigEndian64(operation.token, out);
  }
};
struct FingerprintColumn {
  static constexpr std::uint32_t kType = 17;
  static void Append(const Operation& operation, std::string& out) {
    out.append(BytesIn(operation.fingerprint));
  }
};
struct ReplyColumn {
  static constexpr std::uint32_t kType = 17;
  static void Append(const Operation& operation, std::string& out) { out.append(operation.reply); }
};
struct ExpiresColumn {
  static constexpr std::uint32_t kType = 1184;
  static void Append(const Operation& operation, std::string& out) {
    AppendBigEndian64((operation.expires_at - kPostgresEpoch) * 1'000'000, out);
  }
};

// The parameters of a statement, in binary.
class Parameters {
 public:
  template <typename Column>
  void AddOne(const Operation& operation) {
    Column::Append(operation, values_.emplace_back());
  }
  template <typename Column>
  void AddArray(absl::Span<Operation* const> operations) {
    std::string& value = values_.emplace_back();
    // One dimension, no nulls, from index 1.
    AppendBigEndian32(1, value);
    AppendBigEndian32(0, value);
    AppendBigEndian32(Column::kType, value);
    AppendBigEndian32(static_cast<std::uint32_t>(operations.size()), value);
    AppendBigEndian32(1, value);
    for (const Operation* operation : operations) {
      const std::size_t begin = value.size();
      value.append(4, '\0');
      Column::Append(*operation, value);
      const std::uint32_t size = htonl(static_cast<std::uint32_t>(value.size() - begin - 4));
      std::memcpy(&value[begin], &size, sizeof(size));
    }
  }
  const absl::InlinedVector<std::string, 7>& values() const { return values_; }

 private:
  absl::InlinedVector<std::string, 7> values_;
};

struct ResultDeleter {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ResultDeleter>;

std::string_view FieldOf(const PGresult* result, int row, int column) {
  return {PQgetvalue(result, row, column),
          static_cast<std::size_t>(PQgetlength(result, row, column))};
}

RecordId IdOf(const PGresult* result, int row) {
  RecordId::Bytes bytes;
  FieldOf(result, row, 0).copy(reinterpret_cast<char*>(bytes.data()), bytes.size());
  return RecordId(bytes);
}

bool IsBefore(const Operation* operation, const RecordId& id) { return operation->id < id; }

// Returns the first operation with this id, or the end. `operations` are in the order of their ids.
std::vector<Operation*>::iterator FirstOf(const RecordId& id, std::vector<Operation*>& operations) {
  return std::lower_bound(operations.begin(), operations.end(), id, IsBefore);
}

// The record that a row of kReadOne or kReadMany tells.
void Answer(const PGresult* row_of, int row, Operation& operation) {
  const auto state = static_cast<unsigned char>(FieldOf(row_of, row, 1)[1]);
  operation.verdict = Operation::Verdict::kRefused;
  if (state != kCompleted || FieldOf(row_of, row, 2) != BytesIn(operation.fingerprint)) return;
  operation.verdict = Operation::Verdict::kReplay;
  std::uint64_t expires = 0;
  std::memcpy(&expires, PQgetvalue(row_of, row, 3), sizeof(expires));
  operation.expires_at = static_cast<std::int64_t>(be64toh(expires)) / 1'000'000 + kPostgresEpoch;
  operation.reply = FieldOf(row_of, row, 4);
}

// On the thread that delivers, operations gather until the batch's last Done().
thread_local bool delivering = false;

}  // namespace

// One batch at a time.
class RecordStore::Connection {
 public:
  explicit Connection(const std::string& location)
      : connection_(PQconnectdb(location.c_str()), &PQfinish) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) Die(PQerrorMessage(connection_.get()));
    Check(Result(PQexec(connection_.get(), kSettings)));
    for (const Statement& statement :
         {kInsertOne, kUpdateOne, kReadOne, kReadMany, kInsertMany, kUpdateMany, kBoth}) {
      Check(Result(PQprepare(connection_.get(), statement.name, statement.text, 0, nullptr)));
    }
  }

  int socket() const { return PQsocket(connection_.get()); }

  // Begins a batch.
  void Begin(absl::Span<Operation* const> operations, bool read_first) {
    const std::lock_guard<std::mutex> lock(mutex_);
    reservations_.clear();
    completions_.clear();
    read_ = 0;
    for (Operation* operation : operations) {
      operation->verdict = Operation::Verdict::kRefused;
      (operation->kind == Operation::Kind::kReserve ? reservations_ : completions_)
          .push_back(operation);
    }
    // Two connections lock records in the same order.
    const auto before = [](const Operation* a, const Operation* b) { return a->id < b->id; };
    std::sort(reservations_.begin(), reservations_.end(), before);
    std::sort(completions_.begin(), completions_.end(), before);
    reserved_ = reservations_.size();
    Send(read_first && completions_.empty());
  }

  // Takes what has arrived. Adds the operations that have their answer to `answered`; true if the
  // batch is over.
  bool Receive(std::vector<Operation*>& answered) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sent_ == nullptr) return false;
    if (PQconsumeInput(connection_.get()) == 0) Die(PQerrorMessage(connection_.get()));
    while (PQisBusy(connection_.get()) == 0) {
      Result result(PQgetResult(connection_.get()));
      if (result != nullptr) {
        Check(result);
        result_ = std::move(result);
        continue;
      }
      const bool over = TakeResult(answered);
      if (over) return true;
    }
    return false;
  }

  // The same, and waits.
  void ReceiveAll(std::vector<Operation*>& answered) {
    pollfd polled = {socket(), POLLIN, 0};
    while (!Receive(answered)) poll(&polled, 1, -1);
  }

  // Of the last batch: whether most reservations were of known keys; nothing without any.
  std::optional<bool> mostly_known() const {
    if (reserved_ == 0) return std::nullopt;
    return 2 * read_ > reserved_;
  }

 private:
  void Check(const Result& result) {
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      Die(PQresultErrorMessage(result.get()));
    }
  }

  void Send(bool read) {
    Parameters parameters;
    if (read) {
      if (reservations_.size() == 1) {
        parameters.AddOne<IdColumn>(*reservations_[0]);
        return Send(kReadOne, parameters);
      }
      parameters.AddArray<IdColumn>(reservations_);
      return Send(kReadMany, parameters);
    }
    if (reservations_.size() == 1 && completions_.empty()) {
      const Operation& only = *reservations_[0];
      parameters.AddOne<IdColumn>(only);
      parameters.AddOne<TokenColumn>(only);
      parameters.AddOne<FingerprintColumn>(only);
      parameters.AddOne<ExpiresColumn>(only);
      return Send(kInsertOne, parameters);
    }
    if (completions_.size() == 1 && reservations_.empty()) {
      const Operation& only = *completions_[0];
      parameters.AddOne<IdColumn>(only);
      parameters.AddOne<TokenColumn>(only);
      parameters.AddOne<ReplyColumn>(only);
      return Send(kUpdateOne, parameters);
    }
    if (!reservations_.empty()) {
      parameters.AddArray<IdColumn>(reservations_);
      parameters.AddArray<TokenColumn>(reservations_);
      parameters.AddArray<FingerprintColumn>(reservations_);
      parameters.AddArray<ExpiresColumn>(reservations_);
    }
    if (!completions_.empty()) {
      parameters.AddArray<IdColumn>(completions_);
      parameters.AddArray<TokenColumn>(completions_);
      parameters.AddArray<ReplyColumn>(completions_);
    }
    Send(completions_.empty()    ? kInsertMany
         : reservations_.empty() ? kUpdateMany
                                 : kBoth,
         parameters);
  }

  void Send(const Statement& statement, const Parameters& parameters) {
    const char* values[7];
    int lengths[7];
    int formats[7];
    int count = 0;
    for (const std::string& value : parameters.values()) {
      values[count] = value.data();
      lengths[count] = static_cast<int>(value.size());
      formats[count++] = 1;
    }
    sent_ = statement.name;
    if (PQsendQueryPrepared(connection_.get(), statement.name, count, values, lengths, formats,
                            /*resultFormat=*/1) == 0) {
      Die(PQerrorMessage(connection_.get()));
    }
  }

  // True if the batch is over.
  bool TakeResult(std::vector<Operation*>& answered) {
    const Result result = std::move(result_);
    const char* const statement = std::exchange(sent_, nullptr);
    if (statement == kReadOne.name || statement == kReadMany.name) {
      TakeRecords(*result, answered);
      if (reservations_.empty()) return true;
      Send(/*read=*/false);
      return false;
    }
    TakeWritten(statement, *result, answered);
    if (reservations_.empty()) return true;
    Send(/*read=*/true);
    return false;
  }

  void TakeRecords(const PGresult& result, std::vector<Operation*>& answered) {
    for (int row = 0; row < PQntuples(&result); ++row) {
      const RecordId id = IdOf(&result, row);
      for (auto found = FirstOf(id, reservations_);
           found != reservations_.end() && (*found)->id == id; ++found) {
        Answer(&result, row, **found);
        answered.push_back(*found);
        answered_ids_.push_back(id);
        ++read_;
      }
    }
    RemoveAnswered();
  }

  void TakeWritten(const char* statement, const PGresult& result,
                   std::vector<Operation*>& answered) {
    if (statement == kInsertOne.name || statement == kUpdateOne.name) {
      const bool written = std::string_view(PQcmdTuples(const_cast<PGresult*>(&result))) == "1";
      Operation* const only = reservations_.empty() ? completions_[0] : reservations_[0];
      if (only->kind == Operation::Kind::kReserve) {
        if (!written) return;
        only->verdict = Operation::Verdict::kGranted;
        reservations_.clear();
      } else {
        if (written) only->verdict = Operation::Verdict::kCompleted;
      }
      answered.push_back(only);
      return;
    }
    for (int row = 0; row < PQntuples(&result); ++row) {
      const RecordId id = IdOf(&result, row);
      if (FieldOf(&result, row, 1)[0] == 0) {
        (*FirstOf(id, completions_))->verdict = Operation::Verdict::kCompleted;
        continue;
      }
      Operation* const reserved = *FirstOf(id, reservations_);
      reserved->verdict = Operation::Verdict::kGranted;
      answered.push_back(reserved);
    }
    answered.insert(answered.end(), completions_.begin(), completions_.end());
    completions_.clear();
    RemoveGranted();
  }

  // A read answers all reservations of an id.
  void RemoveAnswered() {
    std::sort(answered_ids_.begin(), answered_ids_.end());
    reservations_.erase(std::remove_if(reservations_.begin(), reservations_.end(),
                                       [this](const Operation* one) {
                                         return std::binary_search(answered_ids_.begin(),
                                                                   answered_ids_.end(), one->id);
                                       }),
                        reservations_.end());
    answered_ids_.clear();
  }

  // An insertion answers the first reservation of an id.
  void RemoveGranted() {
    reservations_.erase(std::remove_if(reservations_.begin(), reservations_.end(),
                                       [](const Operation* one) {
                                         return one->verdict == Operation::Verdict::kGranted;
                                       }),
                        reservations_.end());
  }

  const std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
  // The thread that begins a batch may not have returned from libpq when its result arrives.
  std::mutex mutex_;
  // Of the batch, in the order of their ids; reservations without those that have their answer.
  std::vector<Operation*> reservations_;
  std::vector<Operation*> completions_;
  std::vector<RecordId> answered_ids_;
  // The name of the statement whose result is awaited.
  const char* sent_ = nullptr;
  Result result_;
  std::size_t read_ = 0;
  std::size_t reserved_ = 0;
};

RecordStore::RecordStore(const std::string& location, int connections,
                         std::function<void()> after_batch)
    : after_batch_(std::move(after_batch)) {
  {
    const std::unique_ptr<PGconn, void (*)(PGconn*)> first(PQconnectdb(location.c_str()),
                                                           &PQfinish);
    const Result made(PQexec(first.get(), kTable));
    if (PQresultStatus(made.get()) != PGRES_COMMAND_OK) Die(PQerrorMessage(first.get()));
  }
  for (int i = 0; i < connections; ++i) {
    free_.push_back(connections_.emplace_back(std::make_unique<Connection>(location)).get());
  }
  own_ = std::make_unique<Connection>(location);
  wake_ = eventfd(0, EFD_CLOEXEC);
  waiter_ = std::thread([this] { WaitForResults(); });
}

RecordStore::~RecordStore() {
  stopping_ = true;
  const std::uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) != sizeof(one)) Die("an event cannot be told");
  waiter_.join();
  close(wake_);
}

void RecordStore::Submit(absl::Span<Operation* const> operations) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gathered_.insert(gathered_.end(), operations.begin(), operations.end());
  }
  if (!delivering) SendGathered();
}

void RecordStore::Perform(Operation& operation) {
  const std::lock_guard<std::mutex> lock(own_mutex_);
  std::vector<Operation*> answered;
  Operation* const only = &operation;
  own_->Begin({&only, 1}, read_first_.load(std::memory_order_relaxed));
  own_->ReceiveAll(answered);
  if (const auto known = own_->mostly_known()) read_first_.store(*known, std::memory_order_relaxed);
}

void RecordStore::SendGathered() {
  while (true) {
    std::vector<Operation*> batch;
    Connection* connection = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (gathered_.empty() || free_.empty()) return;
      connection = free_.back();
      free_.pop_back();
      if (gathered_.size() <= kMaxBatch) {
        batch.swap(gathered_);
      } else {
        batch.assign(gathered_.begin(), gathered_.begin() + kMaxBatch);
        gathered_.erase(gathered_.begin(), gathered_.begin() + kMaxBatch);
      }
    }
    connection->Begin(batch, read_first_.load(std::memory_order_relaxed));
  }
}

void RecordStore::Deliver(absl::Span<Operation* const> operations) {
  delivering = true;
  for (Operation* operation : operations) operation->Done();
  if (after_batch_) after_batch_();
  delivering = false;
}

void RecordStore::WaitForResults() {
  std::vector<pollfd> polled;
  for (const auto& connection : connections_) polled.push_back({connection->socket(), POLLIN, 0});
  polled.push_back({wake_, POLLIN, 0});
  std::vector<Operation*> answered;
  while (!stopping_) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (polled[i].revents == 0) continue;
      answered.clear();
      if (connections_[i]->Receive(answered)) {
        if (const auto known = connections_[i]->mostly_known()) {
          read_first_.store(*known, std::memory_order_relaxed);
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(connections_[i].get());
      }
      // The next commit runs while these are delivered.
      SendGathered();
      if (answered.empty()) continue;
      Deliver(answered);
      SendGathered();
    }
  }
}

}  // namespace idempotency::internal::bench
