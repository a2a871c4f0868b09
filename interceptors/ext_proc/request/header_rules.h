// The headers of a request that decide something, or that its upstream must not get. Thread-safe.
#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_HEADER_RULES_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_HEADER_RULES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "interceptors/ext_proc/exchange/header_list.h"

namespace idempotency::internal {

// INVALID_ARGUMENT / REQUEST_INVALID for a request with a header that makes Envoy's router send it
// more than once, below the record, or with ambiguous pseudo-headers. Envoy's configuration removes
// such headers from callers' requests; one that arrives shows that it does not.
absl::Status CheckRequestHeaders(const HeaderList& headers);

// The headers of the request that its upstream does not get: those of the guard about records; and
// what permits compressed replies, whose bytes would be recorded for callers that cannot read them.
std::vector<std::string> RemovedFromRequest(const HeaderList& headers);

// The headers of a reply that only the guard may set.
std::vector<std::string> RemovedFromReply(const HeaderList& headers);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_HEADER_RULES_H_
