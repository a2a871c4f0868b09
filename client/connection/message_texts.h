#ifndef IDEMPOTENCY_CLIENT_CONNECTION_MESSAGE_TEXTS_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_MESSAGE_TEXTS_H_

#include "absl/status/status.h"

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// OK if every `string` in the request, and in the messages in it, is UTF-8; otherwise
// REQUEST_INVALID with the field's path, for example "record_key.scope".
//
// protobuf writes a proto3 message with any bytes in its strings, and refuses to
// parse it, together with the message that contains it. So each request is checked
// by itself before it is put into a frame with others. The request is only read.
absl::Status ValidateTexts(const v1::ReserveRequest& request);
absl::Status ValidateTexts(const v1::CompleteRequest& request);
absl::Status ValidateTexts(const v1::ReleaseRequest& request);
absl::Status ValidateTexts(const v1::ExtendRequest& request);
absl::Status ValidateTexts(const v1::GetRequest& request);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_MESSAGE_TEXTS_H_
