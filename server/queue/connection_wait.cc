#include "server/queue/connection_wait.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>

namespace idempotency::internal {

ConnectionWait::ConnectionWait() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ConnectionWait::Hold(RecordStore& store) {
  if (wake_.valid()) connection_ = store.Hold([this] { Wake(); });
}

void ConnectionWait::Await() {
  constexpr int kNoTimeout = -1;
  std::array<pollfd, 2> events = {
      {{connection_->descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  poll(events.data(), events.size(), kNoTimeout);
  eventfd_t count = 0;
  if (events[1].revents != 0) eventfd_read(wake_.get(), &count);
}

void ConnectionWait::Wake() const { eventfd_write(wake_.get(), 1); }

}  // namespace idempotency::internal
