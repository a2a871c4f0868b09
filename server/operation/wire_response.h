// The store's answers in their wire form.
#ifndef IDEMPOTENCY_SERVER_OPERATION_WIRE_RESPONSE_H_
#define IDEMPOTENCY_SERVER_OPERATION_WIRE_RESPONSE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// The bounds of InFlight.retry_after.
struct RetryAfterBounds {
  absl::Duration min;
  absl::Duration max;
};

// The replay size that a caller accepts.
struct ReplyLimit {
  // In bytes, as stored; 0 for any.
  std::uint64_t max_bytes = 0;
};

// Each fills a default-made response. Where they return a status it is OK, or
// DATA_LOSS / RECORD_DAMAGED if the stored reply cannot be read; then the
// response is not to be sent.
//
// A reply over `limit` is written without its content.
absl::Status WriteVerdict(const Verdict& verdict, const RecordId& id, RetryAfterBounds bounds,
                          ReplyLimit limit, v1::ReserveResponse& response);
void WriteCompletion(const Completion& completion, v1::CompleteResponse& response);
void WriteExtension(const Extension& extension, v1::ExtendResponse& response);
// Without RECORD_VIEW_FULL only the reply's code, message and content are
// given.
absl::Status WriteRecord(const Record& record, v1::RecordView view, v1::Record& proto);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_WIRE_RESPONSE_H_
