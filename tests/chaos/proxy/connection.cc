#include "tests/chaos/proxy/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace idempotency::internal::chaos {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

// Closing it sends a reset in place of an end.
void ResetOnClose(int socket) {
  const linger at_once{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace

Connection::Connection(FileDescriptor client, FileDescriptor target, LinkState* link)
    : link_(link) {
  sockets_[Direction::kUp] = std::move(client);
  sockets_[Direction::kDown] = std::move(target);
  slots_[Direction::kUp] = slots_[Direction::kDown] = PollSet::kNone;
}

short Connection::ReadInterest(Direction direction) const {
  const Pipe& pipe = pipes_[direction];
  if (connecting_ || pipe.ended() || link_->faults.stalled[direction]) return 0;
  return pipe.room() > 0 ? POLLIN : short{0};
}

void Connection::AddTo(PollSet& poll) {
  const Clock::time_point now = Clock::now();
  PerDirection<short> events;
  for (const Direction direction : kBothDirections) {
    events[direction] = static_cast<short>(events[direction] | ReadInterest(direction));
    short& sink = events[Opposite(direction)];
    const std::optional<Clock::time_point> due = pipes_[direction].next_due();
    if (!due.has_value() || link_->faults.stalled[direction] || connecting_) continue;
    if (*due <= now) {
      sink = static_cast<short>(sink | POLLOUT);
    } else {
      poll.WakeAt(*due);
    }
  }
  if (connecting_) events[Direction::kDown] = POLLOUT;
  if (cut_at_.has_value()) poll.WakeAt(*cut_at_);
  for (const Direction direction : kBothDirections) {
    slots_[direction] = poll.Add(sockets_[direction].get(), events[direction]);
  }
}

void Connection::Work(const PollSet& poll) {
  if (connecting_) {
    if (poll.Ready(slots_[Direction::kDown]) == 0) return;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(sockets_[Direction::kDown].get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      ++link_->stats.unreachable;
      CloseWithReset();
      return;
    }
    connecting_ = false;
    return;
  }
  if (cut_at_.has_value() && *cut_at_ <= Clock::now()) {
    Reset();
    return;
  }
  for (const Direction direction : kBothDirections) {
    if (closed()) return;
    if (poll.Ready(slots_[direction]) != 0 && ReadInterest(direction) != 0) Read(direction);
    if (!closed() && !link_->faults.stalled[direction]) Write(direction);
  }
}

void Connection::Read(Direction direction) {
  std::array<char, kReadBytes> buffer;
  Pipe& pipe = pipes_[direction];
  const ssize_t n = recv(Source(direction).get(), buffer.data(),
                         std::min(buffer.size(), pipe.room()), MSG_DONTWAIT);
  if (n > 0) {
    Take(direction, std::string_view(buffer.data(), static_cast<std::size_t>(n)));
  } else if (n == 0) {
    pipe.End();
  } else if (errno != EAGAIN && errno != EINTR) {
    Reset();
  }
}

void Connection::Take(Direction direction, std::string_view bytes) {
  if (link_->faults.vanish[direction]) {
    lost_bytes_ = true;
    link_->stats.lost[direction] += bytes.size();
    return;
  }
  if (swallowing_ == direction) {
    Swallow(bytes);
    return;
  }
  const std::optional<std::size_t> place = RulePlace(direction, bytes);
  if (place.has_value()) {
    Fire(direction, bytes, *place);
  } else if (!dropping_.has_value()) {
    Push(direction, bytes);
  }
}

std::optional<std::size_t> Connection::RulePlace(Direction direction, std::string_view bytes) {
  const std::optional<CutRule>& rule = link_->faults.cut;
  const bool fired = dropping_.has_value() || swallowing_.has_value();
  if (!rule.has_value() || rule->direction != direction || fired) return std::nullopt;
  if (rule_number_ != link_->rule_number) {
    rule_number_ = link_->rule_number;
    trigger_ = rule->trigger;
  }
  return trigger_->Feed(bytes);
}

void Connection::Fire(Direction direction, std::string_view bytes, std::size_t place) {
  CutRule& rule = *link_->faults.cut;
  ++link_->stats.fired;
  if (rule.forward) {
    Push(direction, bytes);
    swallowing_ = Opposite(direction);
    if (rule.hold.has_value()) {
      cut_at_ = Clock::now() + *rule.hold;
    } else {
      answer_ =
          rule.answer.empty() ? ByteTrigger::AfterBytes(1) : ByteTrigger::AfterText(rule.answer);
    }
  } else {
    Push(direction, bytes.substr(0, place));
    pipes_[direction].End();
    pipes_[Opposite(direction)].Discard();
    dropping_ = direction;
  }
  if (--rule.times <= 0) link_->faults.cut.reset();
}

void Connection::Swallow(std::string_view bytes) {
  link_->stats.lost[*swallowing_] += bytes.size();
  if (answer_.has_value() && answer_->Feed(bytes).has_value()) Reset();
}

void Connection::Push(Direction direction, std::string_view bytes) {
  const LinkFaults& faults = link_->faults;
  std::chrono::milliseconds delay = faults.delay;
  if (faults.jitter.count() > 0) {
    const auto range = static_cast<std::uint64_t>(faults.jitter.count()) + 1;
    delay += std::chrono::milliseconds(link_->random() % range);
  }
  link_->stats.delayed_ms += static_cast<std::uint64_t>(delay.count());
  pipes_[direction].Push(bytes, Clock::now() + delay);
}

void Connection::Write(Direction direction) {
  if (!pipes_[direction].WriteTo(Sink(direction).get(), Clock::now(),
                                 &link_->stats.forwarded[direction])) {
    Reset();
    return;
  }
  CloseIfDone();
}

void Connection::CloseIfDone() {
  if (dropping_.has_value()) {
    if (pipes_[*dropping_].finished()) FinishDrop();
    return;
  }
  if (pipes_[Direction::kUp].finished() && pipes_[Direction::kDown].finished()) {
    for (const Direction direction : kBothDirections) sockets_[direction].Close();
  }
}

void Connection::FinishDrop() {
  ++link_->stats.cut;
  ResetOnClose(Source(*dropping_).get());
  Source(*dropping_).Close();
  Sink(*dropping_).Close();
}

void Connection::Reset() {
  if (closed()) return;
  ++link_->stats.cut;
  CloseWithReset();
}

void Connection::CloseWithReset() {
  for (const Direction direction : kBothDirections) {
    ResetOnClose(sockets_[direction].get());
    sockets_[direction].Close();
    pipes_[direction].Discard();
  }
}

}  // namespace idempotency::internal::chaos
