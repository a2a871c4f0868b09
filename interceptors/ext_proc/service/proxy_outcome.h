#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROXY_OUTCOME_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROXY_OUTCOME_H_

#include "interceptors/ext_proc/exchange/proxy_context.h"

namespace idempotency::internal {

// Who made a response that came back through Envoy.
enum class ResponseOrigin {
  kUpstream,  // the upstream: it can be recorded
  kNotSent,   // Envoy, which never reached an upstream: nothing happened
  kProxy,     // Envoy, after it may have sent the request: the outcome is unknown
  kUnstated,  // Envoy does not state it: its configuration lacks response.code_details
};

// By the attributes of the response.
ResponseOrigin OriginOf(const ProxyContext& context);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROXY_OUTCOME_H_
