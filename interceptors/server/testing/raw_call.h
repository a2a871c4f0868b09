#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_RAW_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_RAW_CALL_H_

#include <string>
#include <utility>
#include <vector>

namespace idempotency::internal {

// Makes one unary gRPC call in plain HTTP/2 to a port of this host, without TLS, with exactly
// these headers in addition to those of every call: gRPC's own client writes some of them in
// its own way. Blocks, 30 s at most. True if the server answered with a message: a refused call
// has none.
bool RawCallGetsAMessage(int port, const std::string& path, const std::string& request,
                         const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_RAW_CALL_H_
