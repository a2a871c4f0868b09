#ifndef IDEMPOTENCY_CLIENT_CONNECTION_BAD_FRAME_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_BAD_FRAME_H_

#include <grpcpp/support/status.h>

#include <vector>

#include "absl/status/status.h"

#include "client/connection/outstanding_operation.h"

namespace idempotency::internal {

// Isolates the operation that ended a stream, so that no other caller is affected.
//
// A stream may end because of one frame: it is over the channel's send limit, or the server refused
// it as a whole. Then its operations are marked to be sent one by one (`alone`), and the one that
// was alone already is at fault (`refused`). Operations of other frames lose only time. After any
// other `end` no operation is marked.
//
// `unanswered` are the operations of the stream. Returns the error for the one at fault.
absl::Status IsolateBadFrame(const grpc::Status& end,
                             const std::vector<OutstandingOperation*>& unanswered);

// The end of a stream, for operations that were not at fault: another one that made
// its frame invalid does not concern them.
grpc::Status EndForOthers(const grpc::Status& end);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_BAD_FRAME_H_
