#include "server/queue/admin_worker.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace idempotency::internal {

AdminWorker::AdminWorker(std::size_t max_calls, std::size_t reserved)
    : max_calls_(max_calls), max_reads_(max_calls - reserved) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "admin");
    Run();
  });
}

AdminWorker::~AdminWorker() { Close(); }

bool AdminWorker::TryRun(AdminPlace place, std::function<void()> call) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(place.kind);
  if (closed_ || !lane.shares.MayTake(place.owner, 1, LeftFor(place.kind))) return false;
  lane.shares.Add(place.owner, 1);
  lane.waiting.push_back({std::move(place), std::move(call)});
  changed_.NotifyAll();
  return true;
}

std::size_t AdminWorker::LeftFor(AdminPlace::Kind kind) const {
  const std::size_t left = max_calls_ - acts_.shares.total() - reads_.shares.total();
  if (kind == AdminPlace::Kind::kAct) return left;
  return std::min(left, max_reads_ - reads_.shares.total());
}

bool AdminWorker::Pause(absl::Duration duration) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
  MutexLock lock(mutex_);
  while (!hurry_ && changed_.WaitUntil(lock, until)) {
  }
  return !hurry_;
}

void AdminWorker::Hurry() {
  MutexLock lock(mutex_);
  hurry_ = true;
  changed_.NotifyAll();
}

void AdminWorker::Close() {
  {
    MutexLock lock(mutex_);
    hurry_ = true;
    closed_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

AdminWorker::Waiting AdminWorker::TakeNext() {
  acted_ = !acts_.waiting.empty() && (reads_.waiting.empty() || !acted_);
  std::deque<Waiting>& waiting = (acted_ ? acts_ : reads_).waiting;
  Waiting next = std::move(waiting.front());
  waiting.pop_front();
  return next;
}

void AdminWorker::Run() {
  while (true) {
    Waiting next;
    {
      MutexLock lock(mutex_);
      while (!AnyWaits() && !closed_) changed_.Wait(lock);
      if (!AnyWaits()) return;
      next = TakeNext();
    }
    next.call();
    MutexLock lock(mutex_);
    LaneOf(next.place.kind).shares.Remove(next.place.owner, 1);
  }
}

}  // namespace idempotency::internal
