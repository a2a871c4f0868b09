#ifndef IDEMPOTENCY_TESTS_SUPPORT_REFUSING_LISTENER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_REFUSING_LISTENER_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>

namespace idempotency::internal::testing {

// In place of a server that is down: ends each connection as soon as it is there.
class RefusingListener {
 public:
  explicit RefusingListener(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    const timeval limit{20, 0};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    listens_ = bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
               listen(socket_, 8) == 0;
  }
  ~RefusingListener() { close(socket_); }
  RefusingListener(const RefusingListener&) = delete;
  RefusingListener& operator=(const RefusingListener&) = delete;

  // Waits until clients have tried to connect so often. False if they do not, for 20 s.
  bool AwaitAttempts(int count) {
    for (int i = 0; listens_ && i < count; ++i) {
      const int connection = accept(socket_, nullptr, nullptr);
      if (connection < 0) return false;
      close(connection);
    }
    return listens_;
  }

 private:
  const int socket_;
  bool listens_ = false;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_REFUSING_LISTENER_H_
