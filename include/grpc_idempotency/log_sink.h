#ifndef GRPC_IDEMPOTENCY_LOG_SINK_H_
#define GRPC_IDEMPOTENCY_LOG_SINK_H_

#include <functional>
#include <string_view>

namespace idempotency {

enum class LogSeverity {
  kInfo,     // as it should be: how each method is guarded, an outcome that was recovered
  kWarning,  // a caller's fault, or one that heals itself
  kError,    // the application or an operator should act
};

// The application's logger. `line` is one line of UTF-8 without control
// characters, up to 2 KiB, without time and severity, and valid during the call.
// Keys, requests and replies are never in it; record ids are.
//
// Called on threads of ours and of gRPC's, several at once and with locks held: it must
// be thread-safe, must not block, and must not call what logs with it. What it throws
// is dropped.
using LogSink = std::function<void(LogSeverity severity, std::string_view line)>;

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LOG_SINK_H_
