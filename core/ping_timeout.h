#ifndef IDEMPOTENCY_CORE_PING_TIMEOUT_H_
#define IDEMPOTENCY_CORE_PING_TIMEOUT_H_

namespace idempotency::internal {

// The argument of a channel and of a server for the time in which a ping must be answered, also one
// of keepalive, in milliseconds. GRPC_ARG_KEEPALIVE_TIMEOUT_MS alone does not end a connection to a
// frozen peer in grpcio 1.62.3, 1.71.2 and 1.85.3: the default of this one, a minute, does.
// gRPC 1.51 ignores it. No public header of gRPC has its name.
inline constexpr char kPingTimeoutArgument[] = "grpc.http2.ping_timeout_ms";

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_PING_TIMEOUT_H_
