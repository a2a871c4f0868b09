#include "client/connection/open_streams.h"

#include <algorithm>
#include <utility>

#include "core/fatal.h"

namespace idempotency::internal {

StreamState& OpenStreams::Add(std::shared_ptr<SessionStream> stream) {
  states_.push_back(std::make_unique<StreamState>(std::move(stream)));
  return *states_.back();
}

OpenStreams::States::const_iterator OpenStreams::Find(const SessionStream& stream) const {
  const auto found = std::find_if(states_.begin(), states_.end(), [&](const auto& state) {
    return state->stream().get() == &stream;
  });
  Require(found != states_.end(), "a stream of a session is not open");
  return found;
}

StreamState& OpenStreams::Of(const SessionStream& stream) const { return **Find(stream); }

std::unique_ptr<StreamState> OpenStreams::Remove(const SessionStream& stream) {
  const auto found = states_.begin() + (Find(stream) - states_.cbegin());
  std::unique_ptr<StreamState> state = std::move(*found);
  states_.erase(found);
  return state;
}

OpenStreams::Ordered OpenStreams::WritableByLoad() const {
  Ordered writable;
  for (const auto& state : states_) {
    if (state->writable()) writable.push_back(state.get());
  }
  std::sort(writable.begin(), writable.end(),
            [](const auto* a, const auto* b) { return a->unanswered() < b->unanswered(); });
  return writable;
}

std::size_t OpenStreams::usable() const {
  return std::count_if(states_.begin(), states_.end(),
                       [](const auto& state) { return state->usable(); });
}

bool OpenStreams::AnyEstablished() const {
  return std::any_of(states_.begin(), states_.end(),
                     [](const auto& state) { return state->established(); });
}

bool OpenStreams::AnyIsFailing() const {
  return std::any_of(states_.begin(), states_.end(),
                     [](const auto& state) { return state->broken() && !state->established(); });
}

}  // namespace idempotency::internal
