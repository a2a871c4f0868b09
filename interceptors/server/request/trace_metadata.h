#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_TRACE_METADATA_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_TRACE_METADATA_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// The call's W3C `traceparent`, for the label that stores the first attempt's with the record.
// A malformed value is logged and left out: its caller only loses the trace.
std::optional<std::string> TraceparentIn(const grpc::ServerContextBase& context, GuardLog& log);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_TRACE_METADATA_H_
