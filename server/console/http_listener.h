#ifndef IDEMPOTENCY_SERVER_CONSOLE_HTTP_LISTENER_H_
#define IDEMPOTENCY_SERVER_CONSOLE_HTTP_LISTENER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/console/http_message.h"
#include "server/console/tls_content.h"
#include "server/files/file_descriptor.h"
#include "server/limits.h"

namespace idempotency::internal {

// Serves HTTP/1.1, with TLS if it has a source of certificates, until it is destroyed. One thread
// serves all connections: a client that sends or reads slowly, or not at all, delays no other.
class HttpListener {
 public:
  struct Limits {
    // Above it the oldest connection is closed, of those first where no call was permitted.
    std::size_t connections = limits::kMaxConsoleConnections;
    // For a handshake, for a request from the first wait for it, and for writing a response.
    absl::Duration timeout = limits::kConsoleTimeout;
    // For the handler; a connection whose request is not answered by then is closed.
    absl::Duration answer_time = limits::kConsoleAnswerTime;
  };

  // Accepts from copies of `sockets`, which listen. `tls` is empty for plain HTTP. `handler` runs
  // on the listener's thread, one call at a time. FAILED_PRECONDITION if a socket cannot be used.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(
      const std::vector<FileDescriptor>& sockets, TlsSource tls, HttpHandler handler,
      const Limits& limits);

  // Closes all connections. No handler runs afterwards; replies that come later do nothing.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

 private:
  class Server;

  explicit HttpListener(std::unique_ptr<Server> server);

  // Boost's types stay out of this header.
  const std::unique_ptr<Server> server_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_HTTP_LISTENER_H_
