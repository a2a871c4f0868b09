#ifndef GRPC_IDEMPOTENCY_LEDGER_LEDGER_ENTRY_H_
#define GRPC_IDEMPOTENCY_LEDGER_LEDGER_ENTRY_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency {

// One row of a completion ledger, as read. A value type.
struct LedgerEntry {
  // The guard compares it with its own key: two keys with one record id are an error, never a
  // reply.
  RecordKey record_key;
  std::vector<Fingerprint> fingerprints;
  // The attempt that committed.
  std::uint32_t attempt = 0;
  v1::Reply reply;
  // By the database's clock.
  absl::Time created_at;

  // Decodes the columns of a row; RECORD_DAMAGED if they do not have the values that a
  // LedgerRow had.
  static absl::StatusOr<LedgerEntry> Decode(RecordKey record_key, std::string_view fingerprints,
                                            std::uint32_t attempt, const EncodedReply& reply,
                                            absl::Time created_at);
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_LEDGER_ENTRY_H_
