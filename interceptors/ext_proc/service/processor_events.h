#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_EVENTS_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_EVENTS_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// How an exchange ended, for counting.
enum class ExchangeResult {
  kForwarded,     // the upstream's reply was recorded
  kReplayed,      // a recorded reply was sent
  kRefused,       // nothing was forwarded
  kUnconfigured,  // the same, for lack of an entry for the request
  kUnscoped,      // the same, for lack of a scope: of the caller, or of all that the proxy states
  kOverloaded,    // a bound of the processor was reached, and nothing was forwarded
  kPassed,        // not guarded
  kUnknown,       // forwarded, and its outcome is unknown
  kNotRecorded,   // forwarded, and its reply could not be recorded
  kNotSent,       // the proxy could not reach the upstream
  kBroken,        // the proxy broke the protocol, or went away before anything was forwarded
};

// Receives what happens to exchanges. Implementations are thread-safe and do not block.
class ProcessorEvents {
 public:
  virtual ~ProcessorEvents() = default;

  virtual void Ended(ExchangeResult result) = 0;
  // An operator must act: the configuration of a proxy is wrong, whatever callers send. `what` has
  // the remedy, and nothing of a caller's.
  virtual void Misconfigured(absl::string_view what) = 0;
  // A request was refused that the processor, or the proxy, is perhaps not configured for. A caller
  // may cause it, above all without a scope, so only many of them are a fault. The exchange ends
  // with kUnconfigured or kUnscoped. `what` has nothing of a caller's.
  virtual void RefusedUnconfigured(absl::string_view /*what*/) {}
  // The state of all exchanges changed: their number, and the bytes that they hold.
  virtual void Holds(std::size_t exchanges, std::size_t bytes) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_EVENTS_H_
