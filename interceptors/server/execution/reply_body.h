#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_REPLY_BODY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_REPLY_BODY_H_

#include "google/protobuf/message_lite.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// Sets the body of `reply`, as gRPC serialises it: not in protobuf's deterministic form, which
// would give a map another order than in the first reply. protobuf makes no bytes of a message over
// 2 GiB: instead of a body such a reply gets the content STATUS_ONLY.
void SetBody(const google::protobuf::MessageLite& message, v1::Reply& reply);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_REPLY_BODY_H_
