#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_LEDGER_TESTING_SAMPLE_LEDGER_ROW_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_LEDGER_TESTING_SAMPLE_LEDGER_ROW_H_

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/ledger/ledger_row.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {

// A file of ledger/migrations/.
inline std::string LedgerMigration(const std::string& file) {
  std::ifstream content(absl::StrCat(IDEMPOTENCY_LEDGER_MIGRATIONS, "/", file));
  return {std::istreambuf_iterator<char>(content), std::istreambuf_iterator<char>()};
}

// With bytes that a database must not take for text, and an attempt that has 32 bits.
inline LedgerRow SampleLedgerRow(const std::string& key, absl::Duration life = absl::Hours(48)) {
  LedgerRow row;
  row.record_key = {"shop", "über alice", "/shop.v1.Shop/Buy", key};
  row.record_id = RecordIdFor(row.record_key);
  row.fingerprints = EncodeFingerprints({{1, std::string(32, '\0')}, {2, std::string(16, '\\')}});
  row.attempt = 4'000'000'000U;
  v1::Reply reply;
  reply.set_body(std::string("\0'\\x\xff", 5));
  row.reply = EncodeReply(reply);
  row.life = life;
  return row;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_LEDGER_TESTING_SAMPLE_LEDGER_ROW_H_
