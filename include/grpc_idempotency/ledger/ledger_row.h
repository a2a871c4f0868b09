#ifndef GRPC_IDEMPOTENCY_LEDGER_LEDGER_ROW_H_
#define GRPC_IDEMPOTENCY_LEDGER_LEDGER_ROW_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency {

namespace internal {
class GuardLog;
}  // namespace internal

// One row of a completion ledger, as it is written. A value type.
//
// For each kind of transaction there is one overload of
//   absl::Status InsertLedgerRow(Transaction&, const absl::StatusOr<LedgerRow>&);
// in this namespace, found by its argument: postgres_ledger.h has the one for
// pqxx, sqlite_ledger.h the one for sqlite3*. A plain INSERT, never ON CONFLICT
// DO NOTHING. If it does not answer OK, also for a row that is an error from
// the start, the transaction can no longer be committed.
struct LedgerRow {
  RecordId record_id;
  RecordKey record_key;
  // As EncodeFingerprints writes them.
  std::string fingerprints;
  std::uint32_t attempt = 0;
  EncodedReply reply;
  // How long the row stands at least: twice as long as its record.
  absl::Duration life;
  // Where the writing of the row is logged, null for the default; not part of it.
  std::shared_ptr<internal::GuardLog> log;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_LEDGER_ROW_H_
