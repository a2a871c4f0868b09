#include "tests/support/forgotten_records.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/limits.h"
#include "server/store/sqlite/sqlite_store.h"

namespace idempotency::internal::testing {

void WriteForgottenRecords(const std::string& path, int count) {
  // Behind by more than a retention and the margin for which a row is kept after it.
  ManualClock past;
  past.StepWall(absl::Now() - past.Now() - limits::kDefaultRetention -
                2 * limits::kClockStepMargin);
  SqliteOptions options;
  options.clock = &past;
  const auto store = SqliteStore::Open(path, options);
  absl::Status status = store.status();
  for (int i = 0; i < count && status.ok(); ++i) {
    ReserveOp op;
    op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge", absl::StrCat("past-", i)};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {{1, std::string(32, 'a')}};
    op.on_lease_expiry = LeaseExpiry::kTakeOver;
    status = (*store)->Reserve({&op, 1}).at(0).status();
  }
  if (status.ok()) return;
  std::fprintf(stderr, "no forgotten records: %s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace idempotency::internal::testing
