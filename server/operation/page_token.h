// The tokens with which pages continue. A token holds a place, and a digest of the request that it
// belongs to: it is refused with another one. It authorises nothing: every page is read from the
// namespace of its own request, for which its caller is authorised.
#ifndef IDEMPOTENCY_SERVER_OPERATION_PAGE_TOKEN_H_
#define IDEMPOTENCY_SERVER_OPERATION_PAGE_TOKEN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "idempotency/v1/admin_service.pb.h"
#include "server/store/admin_operations.h"

namespace idempotency::internal {

// Tokens of a page that ended at `place`; empty for nullopt.
std::string PageTokenFor(const v1::ListRequest& request, const std::optional<RecordPlace>& place);
std::string PageTokenFor(const v1::PurgeRequest& request, const std::optional<RecordPlace>& place);
std::string PageTokenFor(const v1::ResealRequest& request, const std::optional<RecordPlace>& place);
std::string PageTokenFor(const v1::ListAuditRequest& request, std::optional<std::int64_t> sequence);

// The place of the request's token: nullopt, or 0, for the first page. REQUEST_INVALID for a token
// of another request, or none of this service.
absl::StatusOr<std::optional<RecordPlace>> PlaceOf(const v1::ListRequest& request);
absl::StatusOr<std::optional<RecordPlace>> PlaceOf(const v1::PurgeRequest& request);
absl::StatusOr<std::optional<RecordPlace>> PlaceOf(const v1::ResealRequest& request);
absl::StatusOr<std::int64_t> SequenceOf(const v1::ListAuditRequest& request);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_PAGE_TOKEN_H_
