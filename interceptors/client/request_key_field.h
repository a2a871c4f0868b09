#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_REQUEST_KEY_FIELD_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_REQUEST_KEY_FIELD_H_

#include <grpcpp/support/byte_buffer.h>

#include "google/protobuf/descriptor.h"

namespace idempotency::internal {

// True if `request`, a serialised request of `method`, has an empty value in the field that the
// method's own policy names as its key_field. False if that cannot be determined: the request
// cannot be parsed, or the field cannot carry a key. `request` may be nullptr.
bool LeavesKeyFieldEmpty(const google::protobuf::MethodDescriptor& method,
                         const grpc::ByteBuffer* request);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_REQUEST_KEY_FIELD_H_
