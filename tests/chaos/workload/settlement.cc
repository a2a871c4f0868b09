#include "tests/chaos/workload/settlement.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "interceptors/server/policy/unknown_outcome.h"

namespace idempotency::internal::testing {
namespace {

constexpr int kThreads = 24;
// The time of the lease, the longest pause and ten seconds, within which every record has to be
// settled.
const std::chrono::nanoseconds kLimit =
    std::chrono::seconds(11) + absl::ToChronoNanoseconds(kLongestReleasePause);

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
  const Settler::Deadline deadline = began + kLimit;
  std::atomic<int> tried{0};
  std::atomic<int> open{0};
  ForEach([&](const KnownRecords::Record& record) {
    if (record.settled) return;
    ++tried;
    if (!settler_.Settle(record, deadline)) ++open;
  });
  const auto settled = std::chrono::steady_clock::now();
  ForEach([&](const KnownRecords::Record& record) { raw_.Look(record.key); });
  const auto seconds = [](auto duration) {
    return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  };
  return absl::StrCat("settled ", tried.load(), " records but for ", open.load(), " in ",
                      seconds(settled - began), " s, looked at all ", records_.size(), " in ",
                      seconds(std::chrono::steady_clock::now() - settled), " s");
}

}  // namespace idempotency::internal::testing
