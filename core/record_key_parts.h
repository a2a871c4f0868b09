#ifndef IDEMPOTENCY_CORE_RECORD_KEY_PARTS_H_
#define IDEMPOTENCY_CORE_RECORD_KEY_PARTS_H_

#include <string_view>

#include "absl/status/status.h"

namespace idempotency::internal {

// The rules of ValidateRecordKey() for one part of a record key: OK, or REQUEST_INVALID, which
// names the part. `path` is the field that has the part; empty: the part is a field of the request.
absl::Status ValidateNamespace(std::string_view name_space, std::string_view path = "");
absl::Status ValidateScope(std::string_view scope, std::string_view path = "");
absl::Status ValidateOperation(std::string_view operation, std::string_view path = "");

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_RECORD_KEY_PARTS_H_
