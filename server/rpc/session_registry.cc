#include "server/rpc/session_registry.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

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
  const auto place = places_.find(stream);
  streams_.erase(place->second);
  places_.erase(place);
  observer_.SessionsChanged(streams_.size());
}

void SessionRegistry::Drain() {
  std::uint64_t end = 0;
  {
    MutexLock lock(mutex_);
    if (draining_) return;
    draining_ = true;
    end = opened_;
  }
  // Later ones do so themselves.
  EndEach([end](std::uint64_t place, SessionCall& stream) {
    if (place < end) stream.AnnounceDraining();
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
  EndEach([](std::uint64_t /*place*/, SessionCall& stream) {
    stream.AnnounceRenewal();
    return false;
  });
}

void SessionRegistry::EndStalled(const MemoryBudget& budget, SteadyTime now) {
  EndEach([](std::uint64_t /*place*/, SessionCall& stream) { return stream.AbandonIfStalled(); });
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
  EndEach([&](std::uint64_t place, SessionCall& stream) {
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
