// Operations for tests, on records that a name distinguishes.
#ifndef IDEMPOTENCY_SERVER_STORE_TESTING_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_STORE_TESTING_OPERATIONS_H_

#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

inline RecordKey KeyNamed(std::string_view name) {
  return {"payments", "tenant-1", "/payments.v1.Payments/Charge", std::string(name)};
}
inline RecordId IdNamed(std::string_view name) { return RecordIdFor(KeyNamed(name)); }

inline ReserveOp ReserveNamed(std::string_view name, char request = 'a') {
  ReserveOp op;
  op.key = KeyNamed(name);
  op.id = IdNamed(name);
  op.fingerprints = {{1, std::string(32, request)}};
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
  return op;
}
// With a token of its own: a repetition of it is no other attempt.
inline ReserveOp AttemptNamed(std::string_view name) {
  ReserveOp op = ReserveNamed(name);
  op.request_token = Uuid::Random();
  return op;
}
inline CompleteOp CompleteNamed(std::string_view name, const Uuid& token,
                                std::string_view body = "done") {
  v1::Reply reply;
  reply.set_body(std::string(body));
  return {KeyNamed(name), IdNamed(name), token, EncodeReply(reply)};
}
inline ReleaseOp ReleaseNamed(std::string_view name, const Uuid& token) {
  return {KeyNamed(name), IdNamed(name), token, "", false};
}
inline ExtendOp ExtendNamed(std::string_view name, const Uuid& token) {
  ExtendOp op;
  op.key = KeyNamed(name);
  op.id = IdNamed(name);
  op.token = token;
  return op;
}
inline GetOp GetNamed(std::string_view name) { return {IdNamed(name), KeyNamed(name)}; }

// The verdict if it is of type T, else nullptr.
template <typename T>
const T* As(const absl::StatusOr<Verdict>& answer) {
  return answer.ok() ? std::get_if<T>(&*answer) : nullptr;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_TESTING_OPERATIONS_H_
