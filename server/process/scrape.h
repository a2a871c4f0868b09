#ifndef IDEMPOTENCY_SERVER_PROCESS_SCRAPE_H_
#define IDEMPOTENCY_SERVER_PROCESS_SCRAPE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "server/files/file_descriptor.h"

namespace idempotency::internal {

// One HTTP connection that requests the metrics: read, answered once, and closed.
// Never blocks. Thread-compatible.
class Scrape {
 public:
  using Page = std::function<std::string()>;
  using Time = std::chrono::steady_clock::time_point;

  // `socket` is non-blocking. The connection ends at `deadline`, even if the answer
  // is not yet sent.
  Scrape(FileDescriptor socket, Time deadline);
  // Closes it. A client that has not read its answer loses the rest, which the system
  // would keep for it otherwise.
  ~Scrape();
  Scrape(const Scrape&) = delete;
  Scrape& operator=(const Scrape&) = delete;

  int socket() const { return socket_.get(); }
  Time deadline() const { return deadline_; }
  // The event to poll the socket for: POLLIN, then POLLOUT.
  short events() const;

  // Continues as far as it can. `page` makes the metrics once the request has
  // arrived. False when the connection is over.
  bool Advance(const Page& page);

 private:
  // False if the client disconnected or sent too much.
  bool Receive(const Page& page);
  bool Send();

  FileDescriptor socket_;
  const Time deadline_;
  std::string request_;
  // Empty until the request has arrived.
  std::string answer_;
  std::size_t sent_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_SCRAPE_H_
