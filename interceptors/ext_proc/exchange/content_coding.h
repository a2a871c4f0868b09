#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_CONTENT_CODING_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_CONTENT_CODING_H_

#include <string>

#include "interceptors/ext_proc/exchange/header_list.h"

namespace idempotency::internal {

// The codings of `content-encoding` (RFC 9110, 8.4) in their order, in lower case and joined by
// commas: "gzip,br". "" if the body is as it is, which is "identity" too. Thread-safe.
std::string ContentCodings(const HeaderList& headers);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_CONTENT_CODING_H_
