// The latency of a call whose handler commits one row: with a guard and its completion ledger, or
// without (the floor). Server and caller are this process; calls follow one another, each with a
// new key. Prints the median and the 99th percentile, in microseconds.
//
//   exactly-once --database=CONNINFO --calls=N [--idempotencyd=ADDRESS [--relaxed]]
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"

#include "bench/charges.grpc.pb.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/ledger/postgres_ledger.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "grpc_idempotency/uuid.h"

ABSL_FLAG(std::string, database, "", "The application's database, with the table `charges`.");
ABSL_FLAG(std::string, idempotencyd, "", "Address of idempotencyd; empty: no guard.");
ABSL_FLAG(bool, relaxed, false, "Relaxed reservations.");
ABSL_FLAG(int, calls, 200, "How many calls are measured, after a tenth as many others.");

namespace idempotency::internal::bench {
namespace {

using charges::v1::ChargeReply;
using charges::v1::ChargeRequest;
using charges::v1::Charges;

constexpr char kMethod[] = "/charges.v1.Charges/Charge";

void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "exactly-once: " << status << "\n";
  std::exit(1);
}

// One call at a time.
class CommittingService final : public Charges::Service {
 public:
  CommittingService() : database_(absl::GetFlag(FLAGS_database)) {}

  grpc::Status Charge(grpc::ServerContext* context, const ChargeRequest* request,
                      ChargeReply* reply) override {
    pqxx::work transaction(database_);
    transaction.exec_params("INSERT INTO charges (account, cents) VALUES ($1, $2)",
                            request->account(), request->amount_cents());
    reply->set_receipt(std::string(256, 'r'));
    Execution* const execution = Execution::FromContext(context);
    if (execution != nullptr) return ToGrpcStatus(execution->Commit(transaction, *reply));
    transaction.commit();
    return grpc::Status::OK;
  }

 private:
  pqxx::connection database_;
};

std::unique_ptr<ServerGuard> MakeGuard() {
  PostgresLedgerOptions ledger_options;
  ledger_options.conninfo = absl::GetFlag(FLAGS_database);
  auto ledger = PostgresLedger::Open(ledger_options);
  OrExit(ledger.status());
  GuardOptions options;
  options.name_space = "bench";
  options.scope = SharedScope("everybody");
  options.ledger = *std::move(ledger);
  options.methods[kMethod].adjust = [](MethodPolicy& policy) {
    policy.relaxed_reservation = absl::GetFlag(FLAGS_relaxed);
  };
  auto guard = ServerGuard::Create(
      grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd),
                                grpc::InsecureChannelCredentials(), IdempotencydChannelArguments()),
      std::move(options));
  OrExit(guard.status());
  return *std::move(guard);
}

double CallOnce(Charges::Stub& stub) {
  grpc::ClientContext context;
  context.AddMetadata("idempotency-key", Uuid::TimeOrdered(absl::Now()).ToString());
  ChargeRequest request;
  request.set_account("account-1");
  request.set_amount_cents(1250);
  ChargeReply reply;
  const auto began = std::chrono::steady_clock::now();
  const grpc::Status status = stub.Charge(&context, request, &reply);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  if (!status.ok()) OrExit(absl::InternalError(status.error_message()));
  return took.count();
}

void Measure() {
  CommittingService service;
  std::unique_ptr<ServerGuard> guard;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  if (absl::GetFlag(FLAGS_idempotencyd).empty()) {
    builder.RegisterService(&service);
  } else {
    guard = MakeGuard();
    OrExit(guard->Protect<Charges>(builder, &service));
    OrExit(guard->Install(builder));
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) OrExit(absl::UnavailableError("cannot listen"));
  const auto stub = Charges::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  const int calls = std::max(1, absl::GetFlag(FLAGS_calls));
  for (int i = 0; i < calls / 10; ++i) CallOnce(*stub);
  std::vector<double> took;
  for (int i = 0; i < calls; ++i) took.push_back(CallOnce(*stub));
  std::sort(took.begin(), took.end());
  std::cout << took[took.size() / 2] << " " << took[took.size() * 99 / 100] << std::endl;
  if (guard != nullptr) guard->Close();
  server->Shutdown();
}

}  // namespace
}  // namespace idempotency::internal::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("The latency of a call whose handler commits one row.");
  absl::ParseCommandLine(argc, argv);
  idempotency::internal::bench::Measure();
}
