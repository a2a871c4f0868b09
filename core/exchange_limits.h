// The limits of the external processor, which also bound its section of the daemon's configuration.
#ifndef IDEMPOTENCY_CORE_EXCHANGE_LIMITS_H_
#define IDEMPOTENCY_CORE_EXCHANGE_LIMITS_H_

#include <cstddef>

namespace idempotency::limits {

// Exchanges in progress: each is a stream of a proxy.
inline constexpr std::size_t kMaxExchanges = 16 * 1024;
// The requests and replies that all of them hold together. Full duplex has no flow control.
inline constexpr std::size_t kMaxExchangeBytes = 256 * 1024 * 1024;
// A request's headers and body, unless the configuration sets more: as much as gRPC receives by
// default.
inline constexpr std::size_t kMaxExchangeRequestBytes = 4 * 1024 * 1024;

}  // namespace idempotency::limits

#endif  // IDEMPOTENCY_CORE_EXCHANGE_LIMITS_H_
