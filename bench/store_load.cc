// The throughput of a store alone: threads that reserve and complete batches of new keys, without a
// service. Prints cycles a second, this process' CPU time, and for Postgres the log that a cycle
// wrote.
//
//   store_load postgresql:///bench?host=/run/postgresql 4 64 20
//   store_load sqlite:/var/tmp/load.sqlite 2 64 20
//     store, threads, cycles in a batch, seconds; then optionally the reply's size
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "core/absl_view.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/sqlite/sqlite_store.h"

namespace idempotency::internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

double Cpu(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

ReserveOp NewReservation() {
  ReserveOp op;
  op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge",
            Uuid::TimeOrdered(absl::Now()).ToString()};
  op.id = RecordIdFor(op.key);
  op.fingerprints = {{1, std::string(32, 'f')}};
  op.request_token = Uuid::Random();
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
  return op;
}

class Load {
 public:
  Load(Store& store, std::size_t batch, std::size_t reply_bytes)
      : store_(store), batch_(batch), reply_bytes_(reply_bytes) {}

  // Until `end`. Every thread of the load runs one.
  void Run(SteadyClock::time_point end) {
    v1::Reply reply;
    reply.set_body(std::string(reply_bytes_, 'r'));
    while (SteadyClock::now() < end) {
      std::vector<ReserveOp> reservations;
      for (std::size_t i = 0; i < batch_; ++i) reservations.push_back(NewReservation());
      const auto verdicts = store_.Reserve(reservations);
      std::vector<CompleteOp> completions;
      for (std::size_t i = 0; i < batch_; ++i) {
        if (!verdicts[i].ok()) Fail(verdicts[i].status().ToString());
        const auto& reserved = std::get<Reserved>(*verdicts[i]);
        completions.push_back(
            {reservations[i].key, reservations[i].id, reserved.token, EncodeReply(reply)});
      }
      for (const auto& completion : store_.Complete(completions)) {
        if (!completion.ok()) Fail(completion.status().ToString());
      }
      cycles_ += batch_;
    }
  }

  std::size_t cycles() const { return cycles_; }

 private:
  Store& store_;
  const std::size_t batch_;
  const std::size_t reply_bytes_;
  std::atomic<std::size_t> cycles_{0};
};

std::string Answer(PostgresConnection& connection, const std::string& sql) {
  const auto result = connection.ExecuteScript(sql);
  if (!result.ok()) Fail(result.status().ToString());
  return result->rows() > 0 ? result->Text(0, 0) : "";
}

int Main(int argc, char** argv) {
  if (argc < 5) Fail("store_load STORE THREADS BATCH SECONDS [REPLY_BYTES]");
  const std::string address = argv[1];
  const int threads = std::atoi(argv[2]);
  const auto batch = static_cast<std::size_t>(std::atoi(argv[3]));
  const auto reply_bytes = static_cast<std::size_t>(argc > 5 ? std::atoi(argv[5]) : 256);
  SocketWatchdog watchdog;
  std::unique_ptr<PostgresConnection> observer;
  std::unique_ptr<Store> store;
  if (absl::StartsWith(address, "sqlite:")) {
    auto opened = SqliteStore::Open(std::string(absl::StripPrefix(address, "sqlite:")));
    if (!opened.ok()) Fail(opened.status().ToString());
    store = *std::move(opened);
  } else {
    PostgresOptions options;
    options.url = address;
    options.connections = threads;
    if (const auto done = PostgresMigrator(options).Up(); !done.ok()) {
      Fail(done.status().ToString());
    }
    observer = PostgresConnection::Open(options, watchdog).value();
    store = PostgresStore::Create(options).value();
  }
  Load load(*store, batch, reply_bytes);
  const std::string log_at =
      observer == nullptr ? "" : Answer(*observer, "SELECT pg_current_wal_insert_lsn()");
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  const auto began = SteadyClock::now();
  const auto end = began + std::chrono::seconds(std::atoi(argv[4]));
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&load, end] {
      pthread_setname_np(pthread_self(), "load");
      load.Run(end);
    });
  }
  for (std::thread& thread : running) thread.join();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - began).count();
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  const auto cycles = static_cast<double>(load.cycles());
  std::printf("%.0f cycles/s, own CPU %.1f us a cycle (user %.1f)", cycles / seconds,
              1e6 *
                  (Cpu(after.ru_utime) + Cpu(after.ru_stime) - Cpu(before.ru_utime) -
                   Cpu(before.ru_stime)) /
                  cycles,
              1e6 * (Cpu(after.ru_utime) - Cpu(before.ru_utime)) / cycles);
  if (observer != nullptr) {
    const std::string bytes = Answer(
        *observer, absl::StrCat("SELECT pg_current_wal_insert_lsn() - '", log_at, "'::pg_lsn"));
    std::printf(", log %.0f bytes a cycle", std::atof(bytes.c_str()) / cycles);
  }
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace idempotency::internal

int main(int argc, char** argv) { return idempotency::internal::Main(argc, argv); }
