// Work that comes from a queue: begin_call.h, begun_operation.h; and the ledger of an
// application whose database is SQLite: sqlite_ledger.h.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/empty.pb.h"

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/ledger/sqlite_ledger.h"
#include "grpc_idempotency/server_guard/begin_call.h"
#include "grpc_idempotency/server_guard/begun_operation.h"
#include "grpc_idempotency/server_guard/server_guard.h"

namespace examples {

// With it, a row in the database is replayed, and any other work may run again.
absl::Status UseLedger(idempotency::GuardOptions& options, const std::string& path) {
  auto ledger = idempotency::SqliteLedger::Open(path);
  if (!ledger.ok()) return ledger.status();
  options.ledger = *std::move(ledger);
  return absl::OkStatus();
}

// OK: the message may be acknowledged. Any other status: it is delivered again.
absl::Status Deliver(idempotency::ServerGuard& guard, const std::string& message_id,
                     const std::string& json, bool (*deposit)(const std::string& json)) {
  idempotency::BeginCall call;
  call.operation = "inbox.deposit";
  call.scope = "deposits";
  call.key = message_id;
  call.deadline = idempotency::DeadlineIn(absl::Seconds(30));
  // A second deposit is not acceptable.
  call.policy.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kRequireRecovery;

  auto begun = guard.Begin(call, idempotency::OpaqueRequest{"application/json", json});
  if (!begun.ok()) return begun.status();
  if (begun->decision() == idempotency::BegunOperation::Decision::kReplay) return absl::OkStatus();
  if (!deposit(json)) return begun->Release("the account is locked");
  return begun->Complete(google::protobuf::Empty());
}

}  // namespace examples
