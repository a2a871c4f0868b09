#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_CONNECTION_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tests/chaos/proxy/byte_trigger.h"
#include "tests/chaos/proxy/file_descriptor.h"
#include "tests/chaos/proxy/link_faults.h"
#include "tests/chaos/proxy/pipe.h"
#include "tests/chaos/proxy/poll_set.h"

namespace idempotency::internal::chaos {

// One connection through a link: the caller's side, the target's side, and the bytes in transit
// between them. Applies the faults of its link as they begin and end. Thread-compatible.
class Connection {
 public:
  // `link` outlives it.
  Connection(FileDescriptor client, FileDescriptor target, LinkState* link);

  void AddTo(PollSet& poll);
  // Moves all bytes that can be moved.
  void Work(const PollSet& poll);

  // It is over, on both sides.
  bool closed() const { return !sockets_[Direction::kUp].is_open(); }
  // Some of its bytes were discarded: it must never be healed.
  bool lost_bytes() const { return lost_bytes_; }
  // Resets both sides, and drops the bytes in transit.
  void Reset();

 private:
  // The socket from which a direction's bytes come.
  FileDescriptor& Source(Direction direction) { return sockets_[direction]; }
  FileDescriptor& Sink(Direction direction) { return sockets_[Opposite(direction)]; }

  short ReadInterest(Direction direction) const;
  void Read(Direction direction);
  void Take(Direction direction, std::string_view bytes);
  // Whether the link's rule has found its place, and its position in `bytes`.
  std::optional<std::size_t> RulePlace(Direction direction, std::string_view bytes);
  void Fire(Direction direction, std::string_view bytes, std::size_t place);
  void Swallow(std::string_view bytes);
  void Push(Direction direction, std::string_view bytes);
  void Write(Direction direction);
  void CloseIfDone();
  // The place of a `drop` was passed on: its receiver gets an end, its sender a reset.
  void FinishDrop();
  void CloseWithReset();

  LinkState* const link_;
  // By the direction with that source: the client's is kUp.
  PerDirection<FileDescriptor> sockets_;
  PerDirection<Pipe> pipes_;
  PerDirection<PollSet::Slot> slots_;
  bool connecting_ = true;
  bool lost_bytes_ = false;

  // This connection's copy of the link's rule, and the number of the rule.
  std::optional<ByteTrigger> trigger_;
  std::uint64_t rule_number_ = 0;
  // A rule has fired: `drop` in this direction ...
  std::optional<Direction> dropping_;
  // ... or the answers of this direction are swallowed, up to a place or a time.
  std::optional<Direction> swallowing_;
  std::optional<ByteTrigger> answer_;
  std::optional<Clock::time_point> cut_at_;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_CONNECTION_H_
