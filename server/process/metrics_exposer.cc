#include "server/process/metrics_exposer.h"

#include <poll.h>
#include <prometheus/text_serializer.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "server/observability/log.h"
#include "server/process/listening_sockets.h"

namespace idempotency::internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The exposer has limits of its own, which close the oldest connection instead of
// refusing the newest.
constexpr ConnectionTable::Limits kUnlimited = {std::numeric_limits<int>::max(),
                                                std::numeric_limits<int>::max()};

int MillisecondsUntil(SteadyClock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, std::numeric_limits<int>::max()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const NetworkAddress& address, std::shared_ptr<prometheus::Registry> registry,
    const Limits& limits, Observer& observer) {
  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Bind(address, " for metrics");
  if (!sockets.ok()) return sockets.status();
  // Private constructor.
  std::unique_ptr<MetricsExposer> exposer(new MetricsExposer(std::move(registry), limits));
  MetricsExposer& made = *exposer;
  made.acceptor_.emplace(
      *std::move(sockets), kUnlimited,
      ConnectionAcceptor::Callbacks{[&made](int socket, int) { made.Arrived(socket); },
                                    // Calls are served without metrics too.
                                    [](const absl::Status&) {}},
      observer);
  return exposer;
}

MetricsExposer::MetricsExposer(std::shared_ptr<prometheus::Registry> registry, const Limits& limits)
    : registry_(std::move(registry)),
      limits_(limits),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "metrics");
}

MetricsExposer::~MetricsExposer() {
  acceptor_.reset();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    Wake();
  }
  thread_.join();
}

void MetricsExposer::Wake() {
  const std::uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof(one)));
}

void MetricsExposer::Run() {
  while (Wait()) {
    TakeArrivals();
    AdvanceScrapes();
  }
}

bool MetricsExposer::Wait() {
  std::vector<pollfd> polled;
  polled.reserve(scrapes_.size() + 1);
  polled.push_back({wake_.get(), POLLIN, 0});
  for (const Scrape& scrape : scrapes_) polled.push_back({scrape.socket(), scrape.events(), 0});
  poll(polled.data(), polled.size(),
       scrapes_.empty() ? -1 : MillisecondsUntil(scrapes_.front().deadline()));
  std::uint64_t count = 0;
  static_cast<void>(read(wake_.get(), &count, sizeof(count)));
  MutexLock lock(mutex_);
  return !stopping_;
}

void MetricsExposer::Arrived(int socket) {
  MutexLock lock(mutex_);
  if (arrivals_.size() >= limits_.scrapes) arrivals_.pop_front();
  arrivals_.emplace_back(socket);
  Wake();
}

void MetricsExposer::TakeArrivals() {
  std::deque<FileDescriptor> arrivals;
  {
    MutexLock lock(mutex_);
    arrivals.swap(arrivals_);
  }
  for (FileDescriptor& socket : arrivals) {
    if (scrapes_.size() >= limits_.scrapes) scrapes_.pop_front();
    scrapes_.emplace_back(std::move(socket),
                          SteadyClock::now() + absl::ToChronoNanoseconds(limits_.timeout));
  }
}

void MetricsExposer::AdvanceScrapes() {
  const auto page = [this] { return prometheus::TextSerializer().Serialize(registry_->Collect()); };
  const auto now = SteadyClock::now();
  for (auto scrape = scrapes_.begin(); scrape != scrapes_.end();) {
    const bool goes_on = scrape->deadline() > now && scrape->Advance(page);
    scrape = goes_on ? std::next(scrape) : scrapes_.erase(scrape);
  }
}

}  // namespace idempotency::internal
