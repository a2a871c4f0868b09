#include "grpc_idempotency/ledger/ledger_entry.h"

#include <utility>

#include "grpc_idempotency/errors.h"

namespace idempotency {

absl::StatusOr<LedgerEntry> LedgerEntry::Decode(RecordKey record_key, std::string_view fingerprints,
                                                std::uint32_t attempt, const EncodedReply& reply,
                                                absl::Time created_at) {
  absl::StatusOr<std::vector<Fingerprint>> decoded = DecodeFingerprints(fingerprints);
  if (!decoded.ok()) {
    return MakeError(Reason::kRecordDamaged,
                     "the ledger's row is damaged; the operation will not run again");
  }
  absl::StatusOr<v1::Reply> stored = DecodeReply(reply);
  if (!stored.ok()) return stored.status();
  return LedgerEntry{std::move(record_key), *std::move(decoded), attempt, *std::move(stored),
                     created_at};
}

}  // namespace idempotency
