#ifndef GRPC_IDEMPOTENCY_LEDGER_LEDGER_ROW_H_
#define GRPC_IDEMPOTENCY_LEDGER_LEDGER_ROW_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/log_sink.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency {

// One row of a completion ledger, as written. A value type.
//
// For each kind of transaction there is one overload of
//   absl::Status InsertLedgerRow(Transaction&, const absl::StatusOr<LedgerRow>&);
// in this namespace, found by its argument: postgres_ledger.h has the overload for pqxx,
// sqlite_ledger.h the one for sqlite3*. It is a plain INSERT, never ON CONFLICT DO NOTHING. If
// it does not return OK, also because the row that it gets is an error, the transaction can no
// longer be committed.
struct LedgerRow {
  RecordId record_id;
  RecordKey record_key;
  // In the encoding of EncodeFingerprints().
  std::string fingerprints;
  std::uint32_t attempt = 0;
  EncodedReply reply;
  // The minimum lifetime of the row: twice its record's.
  absl::Duration life;
  // The guard's log, for an insertion that fails; at most one line a second is written. Not a
  // column.
  LogSink log;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_LEDGER_ROW_H_
