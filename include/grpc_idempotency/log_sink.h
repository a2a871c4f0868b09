#ifndef GRPC_IDEMPOTENCY_LOG_SINK_H_
#define GRPC_IDEMPOTENCY_LOG_SINK_H_

#include <functional>
#include <string_view>

namespace idempotency {

enum class LogSeverity {
  kInfo,     // normal operation: each method's effective policy, a recovered outcome
  kWarning,  // a caller's fault, or one that is corrected automatically
  kError,    // the application or an operator must act
};

// The application's logger. `line` is one line of UTF-8 without control characters, up to 2
// KiB, without time and severity, and valid during the call. It never contains keys, requests
// or replies; it may contain record ids.
//
// Called on this library's threads and gRPC's, several at once and with locks held: it must be
// thread-safe, must not block, and must not call a function that logs with it. An exception is
// ignored.
using LogSink = std::function<void(LogSeverity severity, std::string_view line)>;

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LOG_SINK_H_
