#include "tests/support/held_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace idempotency::internal::testing {

HeldPort::HeldPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (socket_ < 0 || setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(socket_, name, size) != 0 || getsockname(socket_, name, &size) != 0) {
    std::perror("no port for a test");
    std::abort();
  }
  number_ = ntohs(address.sin_port);
  address_ = absl::StrCat("127.0.0.1:", number_);
}

HeldPort::~HeldPort() { close(socket_); }

}  // namespace idempotency::internal::testing
