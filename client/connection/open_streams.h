#ifndef IDEMPOTENCY_CLIENT_CONNECTION_OPEN_STREAMS_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_OPEN_STREAMS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "client/connection/session_stream.h"
#include "client/connection/stream_state.h"

namespace idempotency::internal {

// The streams of a session connection, from their opening to their end.
//
// Not thread-safe: belongs to its session's lock.
class OpenStreams {
 public:
  using States = std::vector<std::unique_ptr<StreamState>>;
  using Ordered = absl::InlinedVector<StreamState*, 4>;

  StreamState& Add(std::shared_ptr<SessionStream> stream);
  // Returns the state of a stream that is here. If it is not, the process aborts: OnEnd() is a
  // stream's last event.
  StreamState& Of(const SessionStream& stream) const;
  std::unique_ptr<StreamState> Remove(const SessionStream& stream);

  // The streams that may be written to, the one with the fewest unanswered operations first.
  Ordered WritableByLoad() const;
  // How many new operations may be put on.
  std::size_t usable() const;
  std::size_t size() const { return states_.size(); }
  bool AnyEstablished() const;
  // Whether one broke before it was established, and has not ended yet.
  bool AnyIsFailing() const;

  bool empty() const { return states_.empty(); }
  States::const_iterator begin() const { return states_.begin(); }
  States::const_iterator end() const { return states_.end(); }

 private:
  States::const_iterator Find(const SessionStream& stream) const;

  States states_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_OPEN_STREAMS_H_
