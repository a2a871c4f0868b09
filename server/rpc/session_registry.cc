#include "server/rpc/session_registry.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/rpc/session_call.h"

namespace idempotency::internal {

bool SessionRegistry::Add(SessionCall* stream) {
  bool first = false;
  bool draining = false;
  {
    MutexLock lock(mutex_);
    first = opened_ == 0;
    streams_.emplace(opened_, stream);
    places_.emplace(stream, opened_++);
    observer_.SessionsChanged(streams_.size());
    draining = draining_;
  }
  if (first && first_session_ != nullptr) first_session_();
  return draining;
}

void SessionRegistry::Remove(SessionCall* stream) {
  MutexLock lock(mutex_);
  const auto place = places_.find(stream);
  streams_.erase(place->second);
  places_.erase(place);
  observer_.SessionsChanged(streams_.size());
}

void SessionRegistry::Drain() {
  MutexLock lock(mutex_);
  if (draining_) return;
  draining_ = true;
  for (const auto& [place, stream] : streams_) stream->AnnounceDraining();
}

void SessionRegistry::EndStalled(const MemoryBudget& budget) {
  EndEach([](std::uint64_t /*place*/, SessionCall& stream) { return stream.AbandonIfStalled(); });
  if (!budget.SessionAnswersAreMany()) return;
  const std::size_t pool = budget.session_answers_pool();
  const std::size_t answers = budget.session_answers();
  EndOldest(&SessionCall::Overdue, answers - std::min(answers, pool / 2), pool);
}

void SessionRegistry::MakeRoom(const MemoryBudget& budget, std::size_t added) {
  const std::size_t pool = budget.session_answers_pool();
  const std::size_t since = added_.fetch_add(added, std::memory_order_relaxed) + added;
  if (since < pool / kRoomShare || making_room_.exchange(true)) return;
  added_.store(0, std::memory_order_relaxed);
  const std::size_t answers = budget.session_answers();
  EndOldest(&SessionCall::Unread, answers > pool ? answers - pool / 2 : 0, pool);
  making_room_.store(false);
}

void SessionRegistry::EndOldest(DescribeUnread describe, std::size_t excess, std::size_t pool) {
  std::vector<UnreadSession> all;
  EndEach([&](std::uint64_t place, SessionCall& stream) {
    std::optional<UnreadSession> unread = (stream.*describe)();
    if (!unread) return false;
    unread->place = place;
    all.push_back(*unread);
    return false;
  });
  absl::flat_hash_map<std::uint64_t, SteadyTime> oldest;
  for (const UnreadSession& unread : OldestUnread(std::move(all), excess, pool)) {
    oldest.emplace(unread.place, unread.since);
  }
  if (oldest.empty()) return;
  EndEach([&](std::uint64_t place, SessionCall& stream) {
    const auto unread = oldest.find(place);
    return unread != oldest.end() && stream.AbandonIfWritingSince(unread->second);
  });
}

void SessionRegistry::EndEach(absl::FunctionRef<bool(std::uint64_t place, SessionCall&)> abandon) {
  std::uint64_t next = 0;
  bool more = true;
  while (more) {
    // They stay until they are ended.
    std::vector<SessionCall*> abandoned;
    {
      MutexLock lock(mutex_);
      auto at = streams_.lower_bound(next);
      for (int i = 0; i < kPerHold && at != streams_.end(); ++i, ++at) {
        if (abandon(at->first, *at->second)) abandoned.push_back(at->second);
        next = at->first + 1;
      }
      more = at != streams_.end();
    }
    for (SessionCall* const stream : abandoned) stream->EndAbandoned();
  }
}

}  // namespace idempotency::internal
