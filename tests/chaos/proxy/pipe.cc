#include "tests/chaos/proxy/pipe.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace idempotency::internal::chaos {

void Pipe::Push(std::string_view bytes, Clock::time_point due) {
  if (bytes.empty()) return;
  last_due_ = std::max(last_due_, due);
  pieces_.push_back({std::string(bytes), 0, last_due_});
  size_ += bytes.size();
}

std::optional<Clock::time_point> Pipe::next_due() const {
  if (!pieces_.empty()) return pieces_.front().due;
  if (ended_ && !finished_) return last_due_;
  return std::nullopt;
}

bool Pipe::WriteTo(int socket, Clock::time_point now, std::uint64_t* written) {
  while (!pieces_.empty() && pieces_.front().due <= now) {
    Piece& piece = pieces_.front();
    const ssize_t n = send(socket, piece.bytes.data() + piece.written,
                           piece.bytes.size() - piece.written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    piece.written += static_cast<std::size_t>(n);
    size_ -= static_cast<std::size_t>(n);
    *written += static_cast<std::uint64_t>(n);
    if (piece.written == piece.bytes.size()) pieces_.pop_front();
  }
  if (pieces_.empty() && ended_ && !finished_) {
    finished_ = true;
    shutdown(socket, SHUT_WR);
  }
  return true;
}

void Pipe::Discard() {
  pieces_.clear();
  size_ = 0;
}

}  // namespace idempotency::internal::chaos
