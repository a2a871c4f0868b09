// Exactly-once effects through crashes: guarded servers that charge in their own database are
// killed before the commit, right after it, and between commit and Complete; stopped past their
// lease while another server takes over, then continued; and fail after their commit; again and
// again, while two clients at once retry every key. Afterwards every key has one charge, and every
// answered caller has the same bytes.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "tests/support/daemon_process.h"
#include "tests/support/held_port.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/probe_client.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

constexpr int kServers = 6;
// The number of them that may be stopped at a time: another one must take over.
constexpr int kStopped = 3;
constexpr int kClients = 12;
constexpr std::int64_t kBalance = 1'000'000;
// Failures in a row make pauses of up to a minute.
constexpr std::chrono::seconds kSettled{240};

// The minimum count of each fault.
using Quota = std::map<std::string, int>;

Quota QuotaOf(int each) {
  // A lease is exceeded in three places: together `each`.
  const int stops = (each + 2) / 3;
  return {{"kill-before-commit", each},   {"kill-after-commit", each},
          {"kill-before-complete", each}, {"stop-before-record", stops},
          {"stop-before-commit", stops},  {"stop-after-commit", stops},
          {"fail-after-commit", each}};
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Migration(const std::string& database) {
  return ReadFile(
      absl::StrCat(IDEMPOTENCY_LEDGER_MIGRATIONS, "/", database, "/001_completions.up.sql"));
}

std::string Account(int client) { return absl::StrCat("account-", client); }

// The faults for requests, until every fault has happened often enough. Thread-safe.
class Agenda {
 public:
  static constexpr char kNothing[] = "nothing";

  Agenda(Quota quota, std::string file) : quota_(std::move(quota)), file_(std::move(file)) {}

  // The fault with the fewest occurrences; kNothing while only requests of others are missing; ""
  // when all are done.
  std::string Next() {
    std::map<std::string, int> happened = Happened();
    MutexLock lock(mutex_);
    std::string next;
    double least = 1;
    for (const auto& [fault, wanted] : quota_) {
      if (happened[fault] >= wanted) continue;
      if (IsStop(fault) && stops_ == kStopped) {
        if (next.empty()) next = kNothing;
        continue;
      }
      // Requested and not seen yet counts half: a server that crashes loses the requests that were
      // under way in it.
      const double done =
          (happened[fault] + 0.5 * std::max(sent_[fault] - happened[fault], 0)) / wanted;
      if (next.empty() || next == kNothing || done < least) {
        next = fault;
        least = done;
      }
    }
    if (!next.empty()) ++sent_[next];
    if (IsStop(next)) ++stops_;
    return next;
  }
  // The request that Next() returned is over.
  void Done(const std::string& fault) {
    MutexLock lock(mutex_);
    if (IsStop(fault)) --stops_;
  }
  // A fault that no bank records itself.
  void Note(const std::string& fault) {
    MutexLock lock(mutex_);
    ++noted_[fault];
  }
  std::map<std::string, int> Happened() {
    std::map<std::string, int> happened;
    {
      MutexLock lock(mutex_);
      happened = noted_;
    }
    const std::string notes = ReadFile(file_);
    for (absl::string_view line : absl::StrSplit(notes, '\n', absl::SkipEmpty())) {
      ++happened[std::string(line)];
    }
    return happened;
  }

 private:
  static bool IsStop(const std::string& fault) { return fault.rfind("stop-", 0) == 0; }

  const Quota quota_;
  const std::string file_;
  Mutex mutex_;
  int stops_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> noted_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> sent_ ABSL_GUARDED_BY(mutex_);
};

// One bank that is started again after it was killed, and continued after it was stopped for longer
// than its lease. Thread-safe.
class BankProcess {
 public:
  BankProcess(std::vector<std::string> arguments, const std::string& idempotencyd, Agenda& agenda)
      : arguments_(std::move(arguments)), daemon_(idempotencyd), agenda_(agenda) {
    Start();
    nurse_ = std::thread([this] { Nurse(); });
  }
  ~BankProcess() {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      process_->Signal(SIGKILL);
    }
    nurse_.join();
  }

  const std::string& address() const { return port_.address(); }

 private:
  void Start() {
    std::vector<std::string> arguments = arguments_;
    arguments.push_back("--listen=" + address());
    auto process = Process::Start(arguments);
    const absl::StatusOr<std::string> line = process.ok()
                                                 ? (*process)->WaitForLine("serving on ")
                                                 : absl::StatusOr<std::string>(process.status());
    if (!line.ok()) {
      std::cerr << "the bank did not start: " << line.status() << "\n";
      std::abort();
    }
    MutexLock lock(mutex_);
    process_ = *std::move(process);
    if (closing_) process_->Signal(SIGKILL);
  }

  void Nurse() {
    for (int stop = 1; !closing_;) {
      const auto stopped = process_->WaitForLine(absl::StrCat("stopped ", stop, " "));
      if (stopped.ok()) {
        ++stop;
        const std::vector<std::string> words = absl::StrSplit(*stopped, ' ');
        if (TakenOver(words.at(3))) agenda_.Note(words.at(2));
        Continue(words.at(1));
      } else if (stopped.status().code() == absl::StatusCode::kFailedPrecondition && !closing_) {
        Start();
        stop = 1;
      }
    }
  }

  // Until it reports the stop: its output from before the stop may be read here before it stops,
  // and a signal that arrives earlier is lost.
  void Continue(const std::string& stop) {
    const std::string continued = absl::StrCat("continued ", stop, " ");
    do {
      process_->Signal(SIGCONT);
    } while (process_->WaitForLine(continued, Process::Seconds(0.05)).status().code() ==
             absl::StatusCode::kDeadlineExceeded);
  }

  // Waits until another attempt has begun. False if none would: all callers may be waiting for this
  // server.
  bool TakenOver(const std::string& key) {
    const absl::Time limit = absl::Now() + absl::Seconds(5);
    v1::GetRequest request;
    v1::RecordKey& record_key = *request.mutable_record_key();
    record_key.set_namespace_("bank");
    record_key.set_scope("everybody");
    record_key.set_operation("/idempotency.testing.Probe/Act");
    record_key.set_key(key);
    while (!closing_ && absl::Now() < limit) {
      const auto response = daemon_.Call(request);
      if (response.ok() && response->record().attempt() > 1) return true;
      // Queries the daemon periodically, and not all the time.
      absl::SleepFor(absl::Milliseconds(25));
    }
    return false;
  }

 private:
  const std::vector<std::string> arguments_;
  const ServiceClient daemon_;
  Agenda& agenda_;
  std::atomic<bool> closing_{false};
  const HeldPort port_;
  // Replaced only by the thread that restarts it.
  Mutex mutex_;
  std::unique_ptr<Process> process_;
  std::thread nurse_;
};

// The acknowledged replies. Thread-safe.
struct Acknowledged {
  std::string effect;
  std::int64_t amount = 0;
};
class Books {
 public:
  void Enter(const std::string& key, const std::string& effect, std::int64_t amount) {
    MutexLock lock(mutex_);
    entries_[key] = {effect, amount};
  }
  std::map<std::string, Acknowledged> entries() {
    MutexLock lock(mutex_);
    return entries_;
  }

 private:
  Mutex mutex_;
  std::map<std::string, Acknowledged> entries_ ABSL_GUARDED_BY(mutex_);
};

// A channel that finds a server at once after its restart: by default gRPC waits a second before it
// tries.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// The same call to one server after the other until it is answered: a server that was killed or
// stopped does not answer for a while.
Outcome Retry(const std::vector<ProbeClient>& servers, std::size_t first, Call call) {
  const auto limit = std::chrono::steady_clock::now() + kSettled;
  for (std::size_t i = first;; ++i) {
    call.context = std::make_shared<grpc::ClientContext>();
    Outcome outcome = servers[i % servers.size()].Send(call);
    if (outcome.status.ok() || std::chrono::steady_clock::now() > limit) return outcome;
    // A client's backoff, not a wait for a condition.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void ChargeAndRetry(const std::vector<ProbeClient>& servers, int client, Agenda& agenda,
                    Books& books) {
  std::size_t n = 0;
  for (std::string fault = agenda.Next(); !fault.empty(); fault = agenda.Next()) {
    Call call;
    const std::string key = absl::StrCat(fault, "-", client, "-", n);
    call.account = absl::StrCat(fault, "/", Account(client), "/", key);
    call.amount = static_cast<std::int64_t>(1 + n % 7);
    call.keys = {key};
    call.timeout = std::chrono::milliseconds(700);
    auto twin = std::async(std::launch::async, [&] { return Retry(servers, n + 1, call); });
    const Outcome outcome = Retry(servers, n, call);
    const Outcome other = twin.get();
    ASSERT_TRUE(outcome.status.ok()) << key << ": " << outcome.status.error_message();
    ASSERT_TRUE(other.status.ok()) << key << ": " << other.status.error_message();
    EXPECT_EQ(outcome.body, other.body) << key;
    const Outcome replay = Retry(servers, n + 2, call);
    EXPECT_EQ(outcome.body, replay.body) << key;
    EXPECT_TRUE(replay.replayed()) << key;
    books.Enter(key, outcome.reply().effect(), call.amount);
    agenda.Done(fault);
    ++n;
  }
}

// The final content of the application's database: rows of text.
using Rows = std::vector<std::vector<std::string>>;
using Query = std::function<Rows(const std::string& sql)>;

void ExpectOneEffectEach(const Query& query, const std::map<std::string, Acknowledged>& books) {
  std::map<std::string, std::vector<std::string>> charges;
  for (const auto& row : query("SELECT key, effect FROM charges")) {
    charges[row[0]].push_back(row[1]);
  }
  std::int64_t charged = 0;
  for (const auto& [key, entry] : books) {
    EXPECT_THAT(charges[key], ::testing::ElementsAre(entry.effect)) << key;
    charged += entry.amount;
  }
  EXPECT_EQ(charges.size(), books.size());
  const Rows left = query("SELECT sum(balance) FROM accounts");
  EXPECT_EQ(left[0][0], absl::StrCat(kClients * kBalance - charged));
}

// Runs until every fault has happened as often as `quota` requires.
void Campaign(const std::string& daemon_store, const std::string& bank_flag, const Quota& quota,
              const Query& query) {
  const absl::Time begun = absl::Now();
  const TempFolder folder;
  DaemonProcess daemon(daemon_store);
  Agenda agenda(quota, folder.File("faults"));
  Books books;
  {
    std::vector<std::unique_ptr<BankProcess>> banks;
    std::vector<ProbeClient> servers;
    for (int i = 0; i < kServers; ++i) {
      banks.push_back(std::make_unique<BankProcess>(
          std::vector<std::string>{"ledger_bank", bank_flag,
                                   absl::StrCat("--idempotencyd=", daemon.address()),
                                   absl::StrCat("--faults=", folder.File("faults"))},
          daemon.address(), agenda));
      servers.emplace_back(ChannelTo(banks.back()->address()));
    }
    std::vector<std::thread> clients;
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] { ChargeAndRetry(servers, client, agenda, books); });
    }
    for (std::thread& client : clients) client.join();
  }
  ExpectOneEffectEach(query, books.entries());
  const std::map<std::string, int> happened = agenda.Happened();
  for (const auto& [fault, count] : happened) std::cout << fault << ": " << count << "\n";
  for (const auto& [fault, wanted] : quota) EXPECT_GE(happened.at(fault), wanted) << fault;
  std::cout << "keys: " << books.entries().size() << ", "
            << absl::FormatDuration(absl::Now() - begun) << "\n";
}

constexpr char kTables[] =
    "CREATE TABLE accounts (name text PRIMARY KEY, balance bigint NOT NULL);"
    // No key: the test must see a second effect, and the database must not refuse it.
    "CREATE TABLE charges (key text NOT NULL, effect text NOT NULL, amount bigint NOT NULL,"
    " attempt bigint NOT NULL)";

std::string OpenAccounts() {
  std::string sql;
  for (int client = 0; client < kClients; ++client) {
    absl::StrAppend(&sql, "INSERT INTO accounts VALUES ('", Account(client), "', ", kBalance, ");");
  }
  return sql;
}

TEST(LedgerCrash, OneEffectForEachKeyOnPostgres) {
  const auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  pqxx::connection connection(cluster->url());
  {
    pqxx::work work(connection);
    work.exec(absl::StrCat(Migration("postgres"), ";", kTables, ";", OpenAccounts()));
    work.commit();
  }
  Campaign(cluster->url(), "--postgres=" + cluster->url(), QuotaOf(100), [&](const auto& sql) {
    Rows rows;
    pqxx::nontransaction alone(connection);
    for (const auto& row : alone.exec(sql)) {
      rows.emplace_back();
      for (const auto& field : row) rows.back().emplace_back(field.c_str());
    }
    return rows;
  });
}

TEST(LedgerCrash, OneEffectForEachKeyOnSqlite) {
  const TempFolder folder;
  sqlite3* opened = nullptr;
  ASSERT_EQ(sqlite3_open(folder.File("bank.db").c_str(), &opened), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database(opened, &sqlite3_close);
  const std::string schema =
      absl::StrCat("PRAGMA journal_mode = WAL;", Migration("sqlite"), kTables, ";", OpenAccounts());
  ASSERT_EQ(sqlite3_exec(opened, schema.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(opened);
  Campaign("sqlite:" + folder.File("records.db"), "--sqlite=" + folder.File("bank.db"), QuotaOf(30),
           [&](const auto& sql) {
             Rows rows;
             const auto collect = [](void* into, int columns, char** values, char**) {
               static_cast<Rows*>(into)->emplace_back(values, values + columns);
               return 0;
             };
             EXPECT_EQ(sqlite3_exec(opened, sql.c_str(), collect, &rows, nullptr), SQLITE_OK);
             return rows;
           });
}

}  // namespace
}  // namespace idempotency::internal::testing
