// A guarded server that charges accounts in its own database and commits each
// reply with the charge, in the completion ledger. Killed, stopped and failed
// by ledger_crash_test if the request selects it, in a key's first attempt.
//
//   ledger_bank --listen=ADDRESS --idempotencyd=ADDRESS --faults=FILE
//               (--postgres=CONNINFO | --sqlite=FILE)
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <pqxx/pqxx>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/testing/connection_decorator.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/ledger/postgres_ledger.h"
#include "grpc_idempotency/ledger/sqlite_ledger.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "grpc_idempotency/server_guard/scope.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/probe_service.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:0", "");
ABSL_FLAG(std::string, idempotencyd, "", "");
ABSL_FLAG(std::string, faults, "", "where faults are noted right before they happen");
ABSL_FLAG(std::string, postgres, "", "");
ABSL_FLAG(std::string, sqlite, "", "");
ABSL_FLAG(int, lease_ms, 300, "");

namespace idempotency::internal::testing {
namespace {

// The points of an execution for faults.
enum class Place { kBeforeRecord, kBeforeCommit, kAfterCommit };

// "stop-before-commit/alice/key-1": the fault, the account, and the key.
struct Order {
  std::string fault;
  std::string account;
  std::string key;

  static Order Of(const ActRequest& request) {
    const std::vector<std::string> parts = absl::StrSplit(request.account(), '/');
    return {parts.at(0), parts.at(1), parts.at(2)};
  }
};

// The faults that the requests select. Thread-safe.
class Faults {
 public:
  explicit Faults(const std::string& file)
      : file_(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

  void Visit(const Execution& execution, const Order& order, Place place) {
    // A fault that stops every attempt would stop the test.
    if (execution.attempt() > 1) return;
    const std::string here = place == Place::kBeforeRecord   ? "before-record"
                             : place == Place::kBeforeCommit ? "before-commit"
                                                             : "after-commit";
    if (order.fault == "kill-" + here) {
      Note(order.fault);
      kill(getpid(), SIGKILL);
    } else if (order.fault == "stop-" + here) {
      // Set by the test, once another attempt has begun.
      const int stop = Announce(order);
      // To this thread: it does not continue before the signal.
      raise(SIGSTOP);
      std::cout << absl::StrCat("continued ", stop, " \n") << std::flush;
    } else if (order.fault == "kill-before-complete" && place == Place::kAfterCommit) {
      MutexLock lock(mutex_);
      doomed_.insert(order.key);
    }
  }
  // True if the handler is to fail although it has committed.
  bool FailsNow(const Execution& execution, const Order& order) {
    if (execution.attempt() > 1 || order.fault != "fail-after-commit") return false;
    Note(order.fault);
    return true;
  }
  void BeforeComplete(const std::string& key) {
    MutexLock lock(mutex_);
    if (doomed_.count(key) == 0) return;
    Note("kill-before-complete");
    kill(getpid(), SIGKILL);
  }

 private:
  // The number of this stop. Stops are reported in their order: the test continues this process,
  // and then waits for the next one.
  int Announce(const Order& order) {
    MutexLock lock(mutex_);
    ++stops_;
    std::cout << absl::StrCat("stopped ", stops_, " ", order.fault, " ", order.key, "\n")
              << std::flush;
    return stops_;
  }
  void Note(const std::string& fault) {
    const std::string line = fault + "\n";
    if (write(file_, line.data(), line.size()) < 0) std::abort();
  }

  const int file_;
  Mutex mutex_;
  int stops_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> doomed_ ABSL_GUARDED_BY(mutex_);
};

// `inner`, with the faults in front of the guard's completions.
std::unique_ptr<Connection> Faulty(std::unique_ptr<Connection> inner, Faults& faults) {
  ConnectionDecorator::Hooks hooks;
  hooks.before_sending = [&faults](const AnyConnectionCall& call,
                                   const ConnectionDecorator::Pass& pass) {
    using Complete = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;
    if (const auto* const complete = std::get_if<Complete>(&call)) {
      faults.BeforeComplete(complete->request.record_key().key());
    }
    pass(absl::OkStatus());
  };
  return std::make_unique<ConnectionDecorator>(std::move(inner), std::move(hooks));
}

// A reply that no other run would give, and that two serialisations of two copies would not give
// either.
void Fill(ActReply& reply, const std::string& effect, std::int64_t balance) {
  reply.set_effect(effect);
  reply.set_total(balance);
  for (int i = 0; i < 16; ++i) (*reply.mutable_notes())[absl::StrCat("note-", i)] = effect;
}

// Half of the executions use Execution::Commit; those that stop before their commit call it
// separately.
bool CommitsAtOnce(const Order& order, const std::string& effect) {
  return effect.back() < '8' && !absl::StrContains(order.fault, "before-commit");
}

// The application's own database: account, charge and ledger row in one
// transaction. Thread-safe.
class Bank {
 public:
  virtual ~Bank() = default;
  virtual std::shared_ptr<CompletionLedger> OpenLedger() = 0;
  virtual grpc::Status Charge(Execution& execution, const Order& order, std::int64_t amount,
                              ActReply& reply, Faults& faults) = 0;
};

class PostgresBank final : public Bank {
 public:
  explicit PostgresBank(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  std::shared_ptr<CompletionLedger> OpenLedger() override {
    PostgresLedgerOptions options;
    options.conninfo = conninfo_;
    return PostgresLedger::Open(options).value();
  }

  grpc::Status Charge(Execution& execution, const Order& order, std::int64_t amount,
                      ActReply& reply, Faults& faults) override {
    try {
      std::unique_ptr<pqxx::connection> connection = Take();
      grpc::Status charged = ChargeOn(*connection, execution, order, amount, reply, faults);
      MutexLock lock(mutex_);
      idle_.push_back(std::move(connection));
      return charged;
    } catch (const std::exception& error) {
      return {grpc::StatusCode::UNAVAILABLE, error.what()};
    }
  }

 private:
  std::unique_ptr<pqxx::connection> Take() {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<pqxx::connection> connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
    }
    return std::make_unique<pqxx::connection>(conninfo_);
  }

  static grpc::Status ChargeOn(pqxx::connection& connection, Execution& execution,
                               const Order& order, std::int64_t amount, ActReply& reply,
                               Faults& faults) {
    pqxx::work work(connection);
    const std::string effect = Uuid::Random().ToString();
    const pqxx::result account = work.exec_params(
        "UPDATE accounts SET balance = balance - $1 WHERE name = $2 RETURNING balance", amount,
        order.account);
    work.exec_params("INSERT INTO charges (key, effect, amount, attempt) VALUES ($1, $2, $3, $4)",
                     order.key, effect, amount, execution.attempt());
    Fill(reply, effect, account[0][0].as<std::int64_t>());
    faults.Visit(execution, order, Place::kBeforeRecord);
    if (CommitsAtOnce(order, effect)) return ToGrpcStatus(execution.Commit(work, reply));
    if (const absl::Status recorded = execution.RecordInTransaction(work, reply); !recorded.ok()) {
      return ToGrpcStatus(recorded);
    }
    faults.Visit(execution, order, Place::kBeforeCommit);
    work.commit();
    return grpc::Status::OK;
  }

  const std::string conninfo_;
  Mutex mutex_;
  std::vector<std::unique_ptr<pqxx::connection>> idle_ ABSL_GUARDED_BY(mutex_);
};

class SqliteBank final : public Bank {
 public:
  explicit SqliteBank(std::string path) : path_(std::move(path)) {}

  std::shared_ptr<CompletionLedger> OpenLedger() override {
    return SqliteLedger::Open(path_).value();
  }

  grpc::Status Charge(Execution& execution, const Order& order, std::int64_t amount,
                      ActReply& reply, Faults& faults) override {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open(path_.c_str(), &opened);
    const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database(opened, &sqlite3_close);
    if (result != SQLITE_OK) return {grpc::StatusCode::UNAVAILABLE, "cannot open"};
    sqlite3_busy_timeout(database.get(), 1000);
    const std::string effect = Uuid::Random().ToString();
    // The test's texts contain no quotes.
    const std::string charge = absl::StrCat(
        "BEGIN IMMEDIATE; UPDATE accounts SET balance = balance - ", amount, " WHERE name = '",
        order.account, "'; INSERT INTO charges (key, effect, amount, attempt) VALUES ('", order.key,
        "', '", effect, "', ", amount, ", ", execution.attempt(), ")");
    if (!Run(database.get(), charge)) {
      // Another process has the database, possibly a stopped one.
      execution.MarkNoEffect();
      return {grpc::StatusCode::UNAVAILABLE, "busy"};
    }
    Fill(reply, effect, amount);
    faults.Visit(execution, order, Place::kBeforeRecord);
    if (CommitsAtOnce(order, effect)) return ToGrpcStatus(execution.Commit(database.get(), reply));
    if (const absl::Status recorded = execution.RecordInTransaction(database.get(), reply);
        !recorded.ok()) {
      return ToGrpcStatus(recorded);
    }
    faults.Visit(execution, order, Place::kBeforeCommit);
    if (!Run(database.get(), "COMMIT")) return {grpc::StatusCode::UNAVAILABLE, "not committed"};
    return grpc::Status::OK;
  }

 private:
  static bool Run(sqlite3* database, const std::string& sql) {
    return sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }

  const std::string path_;
};

int Serve() {
  Faults faults(absl::GetFlag(FLAGS_faults));
  std::unique_ptr<Bank> bank;
  if (!absl::GetFlag(FLAGS_postgres).empty()) {
    bank = std::make_unique<PostgresBank>(absl::GetFlag(FLAGS_postgres));
  } else {
    bank = std::make_unique<SqliteBank>(absl::GetFlag(FLAGS_sqlite));
  }
  const auto service =
      ProbeService::Make(Api::kSync,
                         [&](grpc::ServerContextBase& context, const ActRequest& request,
                             ActReply& reply) -> grpc::Status {
                           Execution& execution = *Execution::FromContext(&context);
                           const Order order = Order::Of(request);
                           const grpc::Status charged =
                               bank->Charge(execution, order, request.amount(), reply, faults);
                           if (!charged.ok()) return charged;
                           faults.Visit(execution, order, Place::kAfterCommit);
                           if (faults.FailsNow(execution, order)) {
                             return {grpc::StatusCode::INTERNAL, "failed after the commit"};
                           }
                           return grpc::Status::OK;
                         });
  GuardOptions options;
  options.name_space = "bank";
  options.scope = SharedScope("everybody");
  options.ledger = bank->OpenLedger();
  MethodPolicy policy;
  policy.lease = absl::Milliseconds(absl::GetFlag(FLAGS_lease_ms));
  // Duplicates wait in the daemon: that keeps the processor free for crashes.
  policy.in_flight = MethodPolicy::InFlight::kWait;
  policy.max_wait = absl::Milliseconds(300);
  options.methods["/idempotency.testing.Probe/Act"].policy = policy;
  auto channel =
      grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments());
  const auto guard =
      ServerGuard::Create(Faulty(MakeConnection(std::move(channel)), faults), std::move(options))
          .value();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen), grpc::InsecureServerCredentials(), &port);
  if (!guard->Protect<Probe>(builder, service->service()).ok()) return 2;
  if (!guard->Install(builder).ok()) return 2;
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 2;
  std::cout << absl::StrCat("serving on 127.0.0.1:", port, "\n") << std::flush;
  // Until it is killed.
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace idempotency::internal::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return idempotency::internal::testing::Serve();
}
