#include "server/store/postgres/records/batch.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status ToCallerStatus(const absl::Status& failure) {
  if (failure.code() == absl::StatusCode::kInvalidArgument) {
    return MakeError(Reason::kRequestInvalid,
                     "the operation contains a value that the store cannot keep, such as a NUL "
                     "character in a text");
  }
  if (absl::IsDataLoss(failure)) {
    return MakeError(Reason::kRecordDamaged,
                     "the database cannot read the stored record; it is never run again");
  }
  if (IsLocked(failure)) {
    return MakeError(Reason::kStoreUnavailable,
                     "another session has locked the record's row; nothing happened, repeat the "
                     "call with the same tokens",
                     RetryAfter(retry_delays::kRowLocked));
  }
  return MakeError(Reason::kStoreUnavailable,
                   "the store did not confirm the operation; repeat the call with the same tokens",
                   RetryAfter(retry_delays::kPostgresUnconfirmed));
}

absl::Status KeepsChanging() {
  return ToCallerStatus(absl::UnavailableError("the record keeps changing"));
}

}  // namespace idempotency::internal
