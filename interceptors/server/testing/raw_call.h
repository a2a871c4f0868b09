#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_RAW_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_RAW_CALL_H_

#include <string>
#include <utility>
#include <vector>

namespace idempotency::internal {

// One unary gRPC call in bare HTTP/2 to a port of this host, without TLS, with
// exactly these headers beside those that every call has: gRPC's own client
// writes some of them as it sees fit. Blocks, 30 s at most. True if the server
// answered with a message: a call that it refuses has none.
bool RawCallGetsAMessage(int port, const std::string& path, const std::string& request,
                         const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_RAW_CALL_H_
