#include "server/queue/session_wait.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>

namespace idempotency::internal {

SessionWait::SessionWait() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void SessionWait::Hold(RecordStore& store) {
  if (wake_.valid()) session_ = store.Hold([this] { Wake(); });
}

void SessionWait::Await() {
  constexpr int kNoTimeout = -1;
  std::array<pollfd, 2> events = {{{session_->descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  poll(events.data(), events.size(), kNoTimeout);
  eventfd_t count = 0;
  if (events[1].revents != 0) eventfd_read(wake_.get(), &count);
}

void SessionWait::Wake() const { eventfd_write(wake_.get(), 1); }

}  // namespace idempotency::internal
