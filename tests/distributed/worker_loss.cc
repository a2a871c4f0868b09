// A load of new keys on distributed records while scripts/distributed.sh kills a node and starts it
// again. Operations that are not answered are repeated with the same tokens until they are. At the
// end every acknowledged completion must be replayed with its reply, and every key must have been
// granted once, and the store healthy all the time: else the exit status is 1.
//
//   worker_loss postgresql://... SECONDS [batched]
//     prints a line a second: cycles, and operations that were not answered
//
// `batched` measures the same load with the statements for one Postgres.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"

#include "core/mutex.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/limits.h"
#include "server/store/postgres/postgres_store.h"

namespace idempotency::internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kThreads = 4;
constexpr std::size_t kBatch = 32;
// How long unanswered operations are repeated: for longer than a node is away.
constexpr auto kPatience = std::chrono::minutes(2);

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

struct Completed {
  RecordKey key;
  EncodedReply reply;
};

class Load {
 public:
  explicit Load(Store& store) : store_(store) {}

  // Each thread runs one. New keys until `end`; then until everything is answered.
  void Run(SteadyClock::time_point end) {
    std::vector<ReserveOp> reservations;
    std::vector<CompleteOp> completions;
    while (true) {
      const auto now = SteadyClock::now();
      // The oldest of those that were not answered, together with as many new ones.
      std::vector<ReserveOp> reserving = TakeBatch(reservations);
      std::vector<CompleteOp> completing = TakeBatch(completions);
      for (std::size_t i = 0; now < end && i < kBatch; ++i) reserving.push_back(NewReservation());
      if (reserving.empty() && completing.empty()) return;
      if (now > end + kPatience) Fail("operations stay unanswered");
      Append(Reserve(std::move(reserving), completing), reservations);
      Append(Complete(std::move(completing)), completions);
    }
  }

  std::int64_t cycles() const { return cycles_; }
  std::int64_t unanswered() const { return unanswered_; }

  // The acknowledged completions that do not read as such.
  std::int64_t CountLost() {
    MutexLock lock(mutex_);
    std::int64_t lost = 0;
    for (std::size_t at = 0; at < completed_.size(); at += limits::kMaxBatch) {
      std::vector<GetOp> ops;
      for (std::size_t i = at; i < completed_.size() && ops.size() < limits::kMaxBatch; ++i) {
        ops.push_back({RecordIdFor(completed_[i].key), completed_[i].key, /*confirmed=*/true});
      }
      const auto records = store_.Get(ops);
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const bool kept = records[i].ok() && records[i]->reply == completed_[at + i].reply;
        if (!kept) ++lost;
      }
    }
    return lost;
  }

 private:
  template <typename Op>
  static std::vector<Op> TakeBatch(std::vector<Op>& ops) {
    const auto end = ops.begin() + static_cast<std::ptrdiff_t>(std::min(kBatch, ops.size()));
    std::vector<Op> taken(std::make_move_iterator(ops.begin()), std::make_move_iterator(end));
    ops.erase(ops.begin(), end);
    return taken;
  }
  template <typename Op>
  static void Append(std::vector<Op> more, std::vector<Op>& ops) {
    ops.insert(ops.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  }

  static ReserveOp NewReservation() {
    ReserveOp op;
    op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge",
              Uuid::TimeOrdered(absl::Now()).ToString()};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {{1, std::string(32, 'f')}};
    op.request_token = Uuid::Random();
    op.lease = absl::Minutes(5);
    return op;
  }

  // Returns those without an answer.
  std::vector<ReserveOp> Reserve(std::vector<ReserveOp> ops, std::vector<CompleteOp>& completions) {
    const auto verdicts = store_.Reserve(ops);
    std::vector<ReserveOp> again;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!verdicts[i].ok()) {
        if (!absl::IsUnavailable(verdicts[i].status())) Fail(verdicts[i].status().ToString());
        again.push_back(std::move(ops[i]));
        ++unanswered_;
        continue;
      }
      const auto* const reserved = std::get_if<Reserved>(&*verdicts[i]);
      // Its key is of nobody else.
      if (reserved == nullptr || reserved->attempt != 1) Fail("a key was granted twice");
      v1::Reply reply;
      reply.set_body(reserved->token.ToString() + std::string(200, 'r'));
      completions.push_back({ops[i].key, ops[i].id, reserved->token, EncodeReply(reply)});
    }
    return again;
  }

  std::vector<CompleteOp> Complete(std::vector<CompleteOp> ops) {
    std::vector<CompleteOp> again;
    for (std::size_t at = 0; at < ops.size(); at += limits::kMaxBatch) {
      const auto batch = absl::MakeConstSpan(ops).subspan(at, limits::kMaxBatch);
      const auto completions = store_.Complete(batch);
      MutexLock lock(mutex_);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (completions[i].ok()) {
          completed_.push_back({batch[i].key, batch[i].reply});
          ++cycles_;
        } else if (absl::IsUnavailable(completions[i].status())) {
          again.push_back(batch[i]);
          ++unanswered_;
        } else {
          Fail(completions[i].status().ToString());
        }
      }
    }
    return again;
  }

  Store& store_;
  std::atomic<std::int64_t> cycles_{0};
  std::atomic<std::int64_t> unanswered_{0};
  Mutex mutex_;
  std::vector<Completed> completed_ ABSL_GUARDED_BY(mutex_);
};

int Main(int argc, char** argv) {
  if (argc < 3) Fail("worker_loss postgresql://... SECONDS [batched]");
  PostgresOptions options;
  options.url = argv[1];
  options.connections = kThreads + 1;
  const bool batched = argc > 3 && std::string_view(argv[3]) == "batched";
  options.statements =
      batched ? PostgresStatementMode::kBatched : PostgresStatementMode::kSingleRow;
  const auto store = PostgresStore::Create(options);
  if (!store.ok()) Fail(store.status().ToString());
  Load load(**store);
  const auto began = SteadyClock::now();
  const auto end = began + std::chrono::seconds(std::atoi(argv[2]));
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&load, &running, end] {
      pthread_setname_np(pthread_self(), "load");
      load.Run(end);
      --running;
    });
  }
  std::int64_t cycles = 0;
  std::int64_t unanswered = 0;
  int unhealthy = 0;
  for (int second = 1; running > 0; ++second) {
    std::this_thread::sleep_until(began + std::chrono::seconds(second));
    // Health: the live nodes serve while one is away.
    if (!(*store)->Inspect().ok()) ++unhealthy;
    std::printf("%3d s: %6lld cycles, %6lld not answered\n", second,
                static_cast<long long>(load.cycles() - cycles),
                static_cast<long long>(load.unanswered() - unanswered));
    std::fflush(stdout);
    cycles = load.cycles();
    unanswered = load.unanswered();
  }
  for (std::thread& thread : threads) thread.join();
  const std::int64_t lost = load.CountLost();
  std::printf("%lld cycles, %lld acknowledged completions lost, %d inspections failed\n",
              static_cast<long long>(load.cycles()), static_cast<long long>(lost), unhealthy);
  return lost == 0 && unhealthy == 0 && load.cycles() > 0 ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::internal

int main(int argc, char** argv) { return idempotency::internal::Main(argc, argv); }
