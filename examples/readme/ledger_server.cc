// Exactly-once effects (docs/ledger.md), compiled so that it stays true.
#include <grpcpp/grpcpp.h>

#include <pqxx/pqxx>
#include <string>
#include <utility>

#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/uuid.h"

namespace {

constexpr int kLimitCents = 1'000'000;

// The handler as it was before the guard: without a row in the ledger.
grpc::Status ChargeUnguarded(const payments::v1::ChargeRequest& request,
                             payments::v1::ChargeReply* reply, pqxx::connection& database) {
  if (request.amount_cents() > kLimitCents) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "over the limit");
  }
  const std::string id = idempotency::Uuid::Random().ToString();
  pqxx::work transaction(database);
  transaction.exec_params("INSERT INTO charges (id, cents) VALUES ($1, $2)", id,
                          request.amount_cents());
  transaction.commit();
  reply->set_charge_id(id);
  return grpc::Status::OK;
}

}  // namespace

// [ledger:handler]
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/ledger/postgres_ledger.h"  // what Commit takes
#include "grpc_idempotency/server_guard/execution.h"

grpc::Status Charge(grpc::ServerContextBase* context, const payments::v1::ChargeRequest& request,
                    payments::v1::ChargeReply* reply, pqxx::connection& database) {
  idempotency::Execution* execution = idempotency::Execution::FromContext(context);
  if (execution == nullptr) return ChargeUnguarded(request, reply, database);
  pqxx::work transaction(database);
  if (request.amount_cents() > kLimitCents) {
    const grpc::Status declined(grpc::StatusCode::FAILED_PRECONDITION, "over the limit");
    // A refusal is an outcome too: it takes the row from an attempt that is only slow.
    const absl::Status committed = execution->Commit(transaction, declined);
    return committed.ok() ? declined : idempotency::ToGrpcStatus(committed);
  }
  transaction.exec_params("INSERT INTO charges (id, cents) VALUES ($1, $2)", execution->record_id(),
                          request.amount_cents());
  reply->set_charge_id(execution->record_id());
  // Last, with the reply as it will be sent.
  return idempotency::ToGrpcStatus(execution->Commit(transaction, *reply));
}
// [ledger:end]

// [ledger:options]
absl::Status UseLedger(idempotency::GuardOptions& options, const std::string& conninfo) {
  idempotency::PostgresLedgerOptions ledger_options;
  ledger_options.conninfo = conninfo;  // the database that `charges` is in
  auto ledger = idempotency::PostgresLedger::Open(ledger_options);
  if (!ledger.ok()) return ledger.status();
  options.ledger = *std::move(ledger);
  return absl::OkStatus();
}
// [ledger:end]

// [ledger:decline]
absl::Status CommitDecline(idempotency::Execution& execution, pqxx::work& transaction,
                           const grpc::Status& declined) {
  transaction.exec("INSERT INTO declines DEFAULT VALUES");
  idempotency::RecordedReply reply(declined);
  reply.AddTrailingMetadata("declined-by", "limits");
  return execution.Commit(transaction, reply);  // if that is OK, return `declined`
}
// [ledger:end]
