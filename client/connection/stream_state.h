#ifndef IDEMPOTENCY_CLIENT_CONNECTION_STREAM_STATE_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_STREAM_STATE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "client/connection/outstanding_operation.h"
#include "client/connection/session_stream.h"

namespace idempotency::internal {

// A stream and its state: its unanswered operations, its server's limits, the
// phase of its life. Operations stay with their owner; a stream counts them.
//
// Not thread-safe: belongs to its session's lock.
class StreamState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit StreamState(std::shared_ptr<SessionStream> stream) : stream_(std::move(stream)) {}

  const std::shared_ptr<SessionStream>& stream() const { return stream_; }

  // The server's first frame has arrived.
  bool established() const { return established_; }
  void Establish(const v1::SessionLimits& limits);
  std::size_t max_frame_bytes() const { return max_frame_bytes_; }
  std::size_t max_frame_operations() const { return max_frame_operations_; }

  // Whether new operations may be put on it, now or after its frame was sent.
  bool usable() const { return !draining_ && !broken_; }
  bool broken() const { return broken_; }
  // Whether a frame may be written now. A draining stream still carries cancels.
  bool writable() const { return !writing_ && !broken_ && !half_closed_; }
  // Whether max_in_flight has room for one more.
  bool has_room() const { return limited_ < max_in_flight_; }
  // Operations that the server has not answered, cancelled ones included.
  std::size_t unanswered() const { return unanswered_ + abandoned_.size(); }

  // `operation` is sent in its next frame.
  void Add(OutstandingOperation& operation);
  // Its answer has arrived.
  void Settle(const OutstandingOperation& operation);
  // Its caller no longer waits, but the server still owes an answer, and counts
  // it until then.
  void Abandon(const OutstandingOperation& operation, Time owed_until);
  // The server answered an abandoned operation. False: no abandoned one has this id.
  bool SettleAbandoned(std::uint64_t id);
  // The server answered an operation: without a verdict, or with one.
  void CountRefusal() { ++refusals_; }
  void ClearRefusals() { refusals_ = 0; }
  // Answers without a verdict since the last one with it.
  int refusals() const { return refusals_; }
  // Ids to be cancelled, for the next frame: at most its maximum.
  std::vector<std::uint64_t> TakeCancels();

  // The number of the frame that is being filled, counted from 1 as its server counts frames.
  std::uint64_t next_frame() const { return frames_written_ + 1; }
  void WriteBegins() {
    writing_ = true;
    ++frames_written_;
  }
  void WriteEnds() { writing_ = false; }
  void Drain() { draining_ = true; }
  // Nothing more can be sent.
  void Break() { broken_ = true; }
  // True once: when a draining stream has no unanswered operation. The
  // half-close begins.
  bool BeginHalfClose(Time owed_until);
  // True once: when no further frame will be written, and none is being read.
  bool BeginRelease();

  // Reading: one read at a time, from the start of the stream to the end of its frames.
  // A read was completed by a frame.
  void ReadEnds() { reading_ = Reading::kDue; }
  // No read begins any more.
  void EndReading() {
    reading_ = Reading::kEnded;
    read_by_ = Time::max();
  }
  // True if the next read is due: it begins.
  bool BeginRead();
  // A read that is due is left to the next write, until then.
  void DeferRead(Time read_by);
  // When a deferred read begins at the latest.
  Time read_by() const { return read_by_; }

  // The server owes a frame.
  void Owe(Time until) { owed_until_ = std::min(owed_until_, until); }
  // A frame was received: the server is alive.
  void OnServerActivity() { owed_until_ = Time::max(); }
  // When the server's answers are overdue: then it counts as lost.
  Time owed_until() const { return owed_until_; }

 private:
  enum class Reading { kUnderWay, kDue, kEnded };

  // Until the server has sent its limits: limits that no server refuses. A
  // first operation does not wait a round trip for the server's.
  static constexpr std::size_t kFirstInFlight = 64;
  static constexpr std::size_t kFirstFrameBytes = 64 * 1024;
  // Also with a server that does not send its maximum.
  static constexpr std::size_t kFirstFrameOperations = 1024;

  const std::shared_ptr<SessionStream> stream_;
  bool established_ = false;
  bool draining_ = false;
  bool broken_ = false;
  bool writing_ = false;
  bool half_closed_ = false;
  bool released_ = false;
  Reading reading_ = Reading::kUnderWay;
  Time read_by_ = Time::max();
  std::size_t max_in_flight_ = kFirstInFlight;
  std::size_t max_frame_bytes_ = kFirstFrameBytes;
  std::size_t max_frame_operations_ = kFirstFrameOperations;
  std::uint64_t frames_written_ = 0;
  std::size_t unanswered_ = 0;
  // The number of unanswered and cancelled operations that max_in_flight counts.
  std::size_t limited_ = 0;
  int refusals_ = 0;
  // By id: whether it is limited.
  absl::flat_hash_map<std::uint64_t, bool> abandoned_;
  std::vector<std::uint64_t> cancels_;
  Time owed_until_ = Time::max();
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_STREAM_STATE_H_
