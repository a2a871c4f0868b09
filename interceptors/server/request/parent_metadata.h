#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_PARENT_METADATA_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_PARENT_METADATA_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string_view>

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// The record of the handler that made the call, as claimed by the caller
// (`idempotency-parent-bin`): its `key` is the parent's record id. For operators who trace a
// workflow; no decision depends on it, since any caller can send any value. A value that cannot
// be a parent is logged and left out.
std::optional<v1::RecordKey> ParentOf(const grpc::ServerContextBase& context,
                                      GuardLog& log = *GuardLog::Default());
// The same for the value of the entry; nullopt if it cannot be a parent.
std::optional<v1::RecordKey> ParentFrom(std::string_view bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_PARENT_METADATA_H_
