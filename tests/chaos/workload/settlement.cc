#include "tests/chaos/workload/settlement.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/uuid.h"

namespace idempotency::testing {
namespace {

constexpr int kThreads = 24;
// Within the lease and ten seconds everything has to be settled.
constexpr std::chrono::seconds kLimit(11);
constexpr std::chrono::milliseconds kPause(100);

bool Before(std::chrono::steady_clock::time_point deadline) {
  return std::chrono::steady_clock::now() < deadline;
}

}  // namespace

template <typename Visit>
void Settlement::ForEach(Visit visit) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "settler");
      for (std::size_t n = next.fetch_add(1); n < records_.size(); n = next.fetch_add(1)) {
        visit(records_[n]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string Settlement::Run() {
  const auto began = std::chrono::steady_clock::now();
  const Deadline deadline = began + kLimit;
  std::atomic<int> asked{0};
  std::atomic<int> open{0};
  ForEach([&](const KnownRecords::Record& record) {
    if (record.completed) return;
    ++asked;
    const bool settled = record.raw ? SettleRaw(record, deadline) : SettleGuarded(record, deadline);
    if (!settled) ++open;
  });
  const auto settled = std::chrono::steady_clock::now();
  ForEach([&](const KnownRecords::Record& record) { raw_.Look(record.key); });
  const auto seconds = [](auto duration) {
    return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  };
  return absl::StrCat("settled ", asked.load(), " records but for ", open.load(), " in ",
                      seconds(settled - began), " s, looked at all ", records_.size(), " in ",
                      seconds(std::chrono::steady_clock::now() - settled), " s");
}

bool Settlement::SettleGuarded(const KnownRecords::Record& record, Deadline deadline) {
  DrawnCall call{record.key, record.key.key, "a"};
  for (std::uint64_t server = 0; Before(deadline); ++server) {
    const GuardedClient::Answer answer = guarded_.Call(call, server);
    if (answer == GuardedClient::Answer::kSettled) return true;
    if (answer == GuardedClient::Answer::kMismatch) {
      call.request = call.request == "a" ? "b" : "a";
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  return false;
}

bool Settlement::SettleRaw(const KnownRecords::Record& record, Deadline deadline) {
  RawOperation reserve;
  reserve.key = record.key;
  reserve.recovery = record.recovery;
  reserve.recover = true;
  while (Before(deadline)) {
    reserve.request_token = Uuid::Random().ToString();
    const RawAnswer granted = raw_.Ask(reserve);
    if (granted.verdict == "replay") return true;
    if (granted.verdict == "reserved") {
      RawOperation complete;
      complete.kind = RawOperation::Kind::kComplete;
      complete.key = record.key;
      complete.token = granted.token;
      complete.reply = "settled";
      if (raw_.Ask(complete).verdict == "completed") return true;
    }
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace idempotency::testing
