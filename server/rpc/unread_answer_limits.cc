#include "server/rpc/unread_answer_limits.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

#include "server/limits.h"
#include "server/rpc/remote_address.h"
#include "server/rpc/session_call.h"

namespace idempotency::internal {

void UnreadAnswerLimits::CallBegins() {
  if (first_call_ == nullptr || called_.load(std::memory_order_relaxed)) return;
  if (!called_.exchange(true)) first_call_();
}

void UnreadAnswerLimits::Send(UnarySent sent, UnaryAnswer& answer) {
  CallBegins();
  UnaryAnswers::Sent counted{sent.call, sent.now, sent.bytes, {}, nullptr, 0};
  if (sent.reply.bytes() >= sent.bytes) {
    // An answer with a reply, or a status alone.
    sent.reply.ShrinkTo(sent.bytes);
    counted.hold = std::move(sent.reply);
  } else {
    counted.host = answers_.Of(HostOfPeer(sent.call.peer()));
    counted.others = sent.bytes;
    const std::size_t pool = budget_.unread_answers_pool();
    if (budget_.unread_answers() > pool || HasTooMuch(counted.host.get(), pool)) {
      MakeRoom(sent.bytes);
    }
    counted.hold = budget_.HoldUnreadAnswers(sent.bytes);
  }
  unary_.Add(answer, std::move(counted));
}

void UnreadAnswerLimits::EndStalled(SteadyTime now) {
  sessions_.ForEach(
      [](std::uint64_t /*place*/, SessionCall& stream) { return stream.AbandonIfStalled(); });
  unary_.EndStalled(now);
  if (!budget_.UnreadAnswersAreMany()) return;
  const std::size_t pool = budget_.unread_answers_pool();
  const std::size_t answers = budget_.unread_answers();
  EndOldest(&SessionCall::Overdue, now - absl::ToChronoNanoseconds(limits::kSessionReadTime),
            answers - std::min(answers, pool / 2));
}

void UnreadAnswerLimits::MakeRoom(std::size_t added) {
  const std::size_t pool = budget_.unread_answers_pool();
  const std::size_t since = added_.fetch_add(added, std::memory_order_relaxed) + added;
  if (since < pool / kRoomShare || making_room_.exchange(true)) return;
  added_.store(0, std::memory_order_relaxed);
  const std::size_t answers = budget_.unread_answers();
  EndOldest(&SessionCall::Unread, SteadyTime::max(), answers > pool ? answers - pool / 2 : 0);
  making_room_.store(false);
}

void UnreadAnswerLimits::EndOldest(DescribeUnread describe, SteadyTime until, std::size_t excess) {
  std::vector<UnreadAnswers> all;
  sessions_.ForEach([&](std::uint64_t place, SessionCall& stream) {
    std::optional<UnreadAnswers> unread = (stream.*describe)();
    if (!unread) return false;
    unread->place = place;
    all.push_back(*unread);
    return false;
  });
  unary_.AppendUnread(until, all);
  absl::flat_hash_map<std::uint64_t, SteadyTime> oldest;
  absl::flat_hash_set<std::uint64_t> oldest_unary;
  for (const UnreadAnswers& unread :
       OldestUnread(std::move(all), excess, budget_.unread_answers_pool())) {
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
  sessions_.ForEach([&](std::uint64_t place, SessionCall& stream) {
    const auto unread = oldest.find(place);
    return unread != oldest.end() && stream.AbandonIfWritingSince(unread->second);
  });
}

}  // namespace idempotency::internal
