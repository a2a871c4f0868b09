#include "server/rpc/session_registry.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

#include "server/limits.h"
#include "server/rpc/remote_address.h"
#include "server/rpc/session_call.h"

namespace idempotency::internal {

void SessionRegistry::CallBegins() {
  if (first_call_ == nullptr || called_.load(std::memory_order_relaxed)) return;
  if (!called_.exchange(true)) first_call_();
}

bool SessionRegistry::Add(SessionCall* stream) {
  bool draining = false;
  {
    MutexLock lock(mutex_);
    streams_.emplace(opened_, stream);
    places_.emplace(stream, opened_++);
    observer_.SessionsChanged(streams_.size());
    draining = draining_;
  }
  CallBegins();
  return draining;
}

void SessionRegistry::Remove(SessionCall* stream) {
  MutexLock lock(mutex_);
  const std::uint64_t place = places_.find(stream)->second;
  while (absl::c_linear_search(visited_, place)) visit_ended_.Wait(lock);
  streams_.erase(place);
  places_.erase(stream);
  observer_.SessionsChanged(streams_.size());
}

void SessionRegistry::Drain() {
  {
    MutexLock lock(mutex_);
    if (draining_) return;
    draining_ = true;
  }
  // Later ones do so themselves; one that begins now may do so twice.
  ForEach([](std::uint64_t /*place*/, SessionCall& stream) {
    stream.AnnounceDraining();
    return false;
  });
}

void SessionRegistry::Send(UnarySent sent, MemoryBudget& budget, UnaryAnswer& answer) {
  CallBegins();
  UnaryAnswers::Sent counted{sent.call, sent.now, sent.bytes, {}, nullptr, 0};
  if (sent.reply.bytes() >= sent.bytes) {
    // An answer with a reply, or a status alone.
    sent.reply.ShrinkTo(sent.bytes);
    counted.hold = std::move(sent.reply);
  } else {
    counted.host = answers_.Of(HostOfPeer(sent.call.peer()));
    counted.others = sent.bytes;
    const std::size_t pool = budget.unread_answers_pool();
    if (budget.unread_answers() > pool || HasTooMuch(counted.host.get(), pool)) {
      MakeRoom(budget, sent.bytes);
    }
    counted.hold = budget.HoldUnreadAnswers(sent.bytes);
  }
  unary_.Add(answer, std::move(counted));
}

void SessionRegistry::AnnounceRenewals() {
  ForEach([](std::uint64_t /*place*/, SessionCall& stream) {
    stream.AnnounceRenewal();
    return false;
  });
}

void SessionRegistry::EndStalled(const MemoryBudget& budget, SteadyTime now) {
  ForEach([](std::uint64_t /*place*/, SessionCall& stream) { return stream.AbandonIfStalled(); });
  unary_.EndStalled(now);
  if (!budget.UnreadAnswersAreMany()) return;
  const std::size_t pool = budget.unread_answers_pool();
  const std::size_t answers = budget.unread_answers();
  EndOldest(&SessionCall::Overdue, now - absl::ToChronoNanoseconds(limits::kSessionReadTime),
            answers - std::min(answers, pool / 2), pool);
}

void SessionRegistry::MakeRoom(const MemoryBudget& budget, std::size_t added) {
  const std::size_t pool = budget.unread_answers_pool();
  const std::size_t since = added_.fetch_add(added, std::memory_order_relaxed) + added;
  if (since < pool / kRoomShare || making_room_.exchange(true)) return;
  added_.store(0, std::memory_order_relaxed);
  const std::size_t answers = budget.unread_answers();
  EndOldest(&SessionCall::Unread, SteadyTime::max(), answers > pool ? answers - pool / 2 : 0, pool);
  making_room_.store(false);
}

void SessionRegistry::EndOldest(DescribeUnread describe, SteadyTime until, std::size_t excess,
                                std::size_t pool) {
  std::vector<UnreadAnswers> all;
  ForEach([&](std::uint64_t place, SessionCall& stream) {
    std::optional<UnreadAnswers> unread = (stream.*describe)();
    if (!unread) return false;
    unread->place = place;
    all.push_back(*unread);
    return false;
  });
  unary_.AppendUnread(until, all);
  absl::flat_hash_map<std::uint64_t, SteadyTime> oldest;
  absl::flat_hash_set<std::uint64_t> oldest_unary;
  for (const UnreadAnswers& unread : OldestUnread(std::move(all), excess, pool)) {
    if (unread.of == UnreadAnswers::Of::kUnaryCall) {
      oldest_unary.insert(unread.place);
    } else {
      oldest.emplace(unread.place, unread.since);
    }
  }
  if (!oldest_unary.empty()) {
    unary_.End([&](std::uint64_t place) { return oldest_unary.contains(place); });
  }
  if (oldest.empty()) return;
  ForEach([&](std::uint64_t place, SessionCall& stream) {
    const auto unread = oldest.find(place);
    return unread != oldest.end() && stream.AbandonIfWritingSince(unread->second);
  });
}

void SessionRegistry::ForEach(Visit abandon) {
  std::uint64_t end = 0;
  {
    MutexLock lock(mutex_);
    end = opened_;
  }
  for (std::uint64_t place = 0; SessionCall* const stream = BeginVisit(place, end); ++place) {
    const bool abandoned = abandon(place, *stream);
    VisitEnds(place);
    // An abandoned one stays until it is ended.
    if (abandoned) stream->EndAbandoned();
  }
}

SessionCall* SessionRegistry::BeginVisit(std::uint64_t& place, std::uint64_t end) {
  MutexLock lock(mutex_);
  const auto found = streams_.lower_bound(place);
  if (found == streams_.end() || found->first >= end) return nullptr;
  place = found->first;
  visited_.push_back(place);
  return found->second;
}

void SessionRegistry::VisitEnds(std::uint64_t place) {
  MutexLock lock(mutex_);
  visited_.erase(absl::c_find(visited_, place));
  visit_ended_.NotifyAll();
}

}  // namespace idempotency::internal
