#ifndef IDEMPOTENCY_TESTS_SUPPORT_HELD_PORT_H_
#define IDEMPOTENCY_TESTS_SUPPORT_HELD_PORT_H_

#include <string>

namespace idempotency::internal::testing {

// A port of 127.0.0.1 that the system gives to no other process while the object exists, whether a
// server listens on it or not: for a server that stops and starts again, and for one that is to be
// unreachable.
//
// A socket is bound to the port and never listens. The system chooses no port to which a socket is
// bound, for listening or connecting. A server that names the port gets it nevertheless if it sets
// SO_REUSEADDR, as idempotencyd and gRPC's servers do; while none listens, connections are refused.
//
// Aborts the test process if no port is free. Immutable.
class HeldPort {
 public:
  HeldPort();
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  int number() const { return number_; }
  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }

 private:
  const int socket_;
  int number_ = 0;
  std::string address_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_HELD_PORT_H_
