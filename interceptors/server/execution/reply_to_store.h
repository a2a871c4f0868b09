#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_REPLY_TO_STORE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_REPLY_TO_STORE_H_

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/execution/live_execution.h"

namespace idempotency::internal {

// Reduces a reply to the part that is stored, by the operation's policy: without the fields that
// are never stored, within GuardOptions::max_reply_bytes and MethodPolicy::stream_limit_bytes (a
// larger reply is stored without its content). A reply whose content is already STATUS_ONLY is not
// changed.
void ReduceToStored(const LiveExecution& execution, v1::Reply& reply);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_REPLY_TO_STORE_H_
