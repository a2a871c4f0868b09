// A guarded server of a chaos run. Probe.Act commits its effect with its reply in the completion
// ledger; Twin.Act and Probe.Look append theirs to a file that is synced before they continue, and
// Probe.Look runs nothing again before its outcome is known. Writes a history, until it is killed.
//
//   chaos-bank --name=NAME --listen=ADDRESS --idempotencyd=ADDRESS --log=FILE
//              --effects=FILE --seed=N [--ledger=CONNINFO [--relaxed]]
//              [--tls_ca=FILE --tls_cert=FILE --tls_key=FILE]
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/ledger/postgres_ledger.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "grpc_idempotency/server_guard/scope.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "tests/chaos/workload/daemon_channel.h"
#include "tests/chaos/workload/effects_table.h"
#include "tests/chaos/workload/handler_behaviour.h"
#include "tests/chaos/workload/history_log.h"
#include "tests/chaos/workload/reply_digest.h"
#include "tests/support/probe.h"

ABSL_FLAG(std::string, name, "bank", "name in the history");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "listen address");
ABSL_FLAG(std::string, log, "", "file of its history, created new");
ABSL_FLAG(std::string, effects, "", "file of the effects without the ledger, created new");
ABSL_FLAG(std::uint64_t, seed, 1, "seed of the handlers' behaviour");
ABSL_FLAG(std::string, ledger, "",
          "libpq conninfo of the application's database; empty: no ledger");
ABSL_FLAG(bool, relaxed, false, "relaxed reservations of Probe.Act; needs a ledger");
ABSL_FLAG(int, lease_ms, 1000, "lease of every method");
ABSL_FLAG(int, max_lease_ms, 1500, "duration of the heartbeats");

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr char kLook[] = "/idempotency.testing.Probe/Look";
constexpr char kTwinAct[] = "/idempotency.testing.Twin/Act";
constexpr char kNamespace[] = "app";
// The code of a refusal: recorded, and never returned by gRPC itself.
constexpr grpc::StatusCode kRefusal = grpc::StatusCode::FAILED_PRECONDITION;

std::string MetadataOf(const grpc::ServerContext& context, const std::string& name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

// The record that the reply names.
std::string TextOf(const RecordKey& key) {
  return absl::StrCat(key.name_space, "|", key.scope, "|", key.operation, "|", key.key);
}

// The handlers. Thread-safe.
class Bank {
 public:
  Bank()
      : log_(absl::GetFlag(FLAGS_log)),
        effects_(absl::GetFlag(FLAGS_effects)),
        table_(absl::GetFlag(FLAGS_ledger), absl::GetFlag(FLAGS_name)) {}

  grpc::Status Run(std::string_view method, grpc::ServerContext& context, const ActRequest& request,
                   ActReply& reply);

 private:
  // One execution of a handler.
  struct Attempt {
    std::string id;
    RecordKey key;
    Execution* execution;
    HandlerBehaviour behaviour;
    bool ledger;
  };

  void LogStart(const Attempt& run, const std::string& call, const std::string& fp);
  void LogEnd(const Attempt& run, const char* outcome, const std::string& reply_digest = "");
  grpc::Status Finish(const Attempt& run, ActReply& reply);
  grpc::Status Refuse(const Attempt& run);
  // The result of the effect.
  absl::Status Act(const Attempt& run, const ActReply& reply, const std::string& reply_digest);

  HistoryLog log_;
  HistoryLog effects_;
  EffectsTable table_;
  std::atomic<std::uint64_t> runs_{0};
};

void Bank::LogStart(const Attempt& run, const std::string& call, const std::string& fp) {
  log_.Append(HistoryLine("start")
                  .Text("id", run.id)
                  .Text("call", call)
                  .Record("record", run.key)
                  .Number("attempt", run.execution->attempt())
                  .Text("server", absl::GetFlag(FLAGS_name))
                  .Flag("ledger", run.ledger)
                  .Text("fp", fp)
                  .Number("lease_ms", absl::GetFlag(FLAGS_lease_ms))
                  .Text("record_id", run.execution->record_id())
                  .Number("wall_ms", absl::ToUnixMillis(absl::Now())));
}

void Bank::LogEnd(const Attempt& run, const char* outcome, const std::string& reply_digest) {
  HistoryLine line("end");
  line.Text("id", run.id).Text("outcome", outcome);
  if (!reply_digest.empty()) line.Text("reply", reply_digest);
  log_.Append(line);
}

grpc::Status Bank::Run(std::string_view method, grpc::ServerContext& context,
                       const ActRequest& request, ActReply& reply) {
  Execution* const execution = Execution::FromContext(&context);
  if (execution == nullptr) return {grpc::StatusCode::INTERNAL, "unguarded"};
  Attempt run;
  run.id = absl::StrCat("r", runs_.fetch_add(1));
  run.key = {kNamespace, MetadataOf(context, "x-scope"), std::string(method),
             NormaliseKey(MetadataOf(context, "idempotency-key"))};
  run.execution = execution;
  run.ledger = method == kAct;
  run.behaviour = HandlerBehaviour::Draw(
      absl::GetFlag(FLAGS_seed), run.key, execution->attempt(),
      std::chrono::milliseconds(absl::GetFlag(FLAGS_lease_ms) + absl::GetFlag(FLAGS_max_lease_ms)));
  LogStart(run, MetadataOf(context, "chaos-call"), request.account());
  std::this_thread::sleep_for(run.behaviour.work);
  if (run.behaviour.looks && execution->lost()) {
    LogEnd(run, "lost");
    return {grpc::StatusCode::ABORTED, "lost"};
  }
  return Finish(run, reply);
}

grpc::Status Bank::Finish(const Attempt& run, ActReply& reply) {
  using Ending = HandlerBehaviour::Ending;
  switch (run.behaviour.ending) {
    case Ending::kRefuse:
      return Refuse(run);
    case Ending::kFailBefore:
      LogEnd(run, "indefinite");
      return {grpc::StatusCode::INTERNAL, "failed before the effect"};
    case Ending::kNothingHappened:
      run.execution->MarkNoEffect();
      LogEnd(run, "no_effect");
      return {grpc::StatusCode::INTERNAL, "nothing happened"};
    case Ending::kOk:
    case Ending::kFailAfter:
      break;
  }
  reply.set_effect(TextOf(run.key));
  reply.set_total(run.execution->attempt());
  reply.set_payload(absl::StrCat(absl::GetFlag(FLAGS_name), run.id, HistoryLine::Now()));
  const std::string digest = ReplyDigest(grpc::StatusCode::OK, "", reply.SerializeAsString());
  const absl::Status acted = Act(run, reply, digest);
  if (absl::IsUnavailable(acted)) {
    LogEnd(run, "indefinite");
    return {grpc::StatusCode::INTERNAL, "the database did not confirm"};
  }
  if (!acted.ok()) {
    LogEnd(run, "lost");
    return {grpc::StatusCode::ABORTED, "lost"};
  }
  if (run.behaviour.ending == Ending::kFailAfter) {
    LogEnd(run, "indefinite");
    return {grpc::StatusCode::INTERNAL, "failed after the effect"};
  }
  LogEnd(run, "ok", digest);
  return grpc::Status::OK;
}

absl::Status Bank::Act(const Attempt& run, const ActReply& reply, const std::string& reply_digest) {
  if (run.ledger) return table_.Commit(*run.execution, run.key, reply, reply_digest);
  effects_.AppendDurably(HistoryLine("effect")
                             .Record("record", run.key)
                             .Number("attempt", run.execution->attempt())
                             .Text("server", absl::GetFlag(FLAGS_name))
                             .Flag("ledger", false)
                             .Text("reply", reply_digest));
  return absl::OkStatus();
}

grpc::Status Bank::Refuse(const Attempt& run) {
  const grpc::Status refused(
      kRefusal, absl::StrCat("refused|", TextOf(run.key), "|", run.execution->attempt()));
  // Before the commit: killed in between, the refusal may be recorded.
  LogEnd(run, "refused", ReplyDigest(kRefusal, refused.error_message(), ""));
  // Another attempt that was only slow may still commit, unless the refusal inserts its row.
  if (run.ledger && !run.execution->certainly_first()) {
    const absl::Status committed = table_.Commit(*run.execution, run.key, refused, "");
    if (!committed.ok()) return {grpc::StatusCode::INTERNAL, "the refusal was not committed"};
  }
  return refused;
}

class ProbeBank final : public Probe::Service {
 public:
  explicit ProbeBank(Bank& bank) : bank_(bank) {}
  grpc::Status Act(grpc::ServerContext* context, const ActRequest* request,
                   ActReply* reply) override {
    return bank_.Run(kAct, *context, *request, *reply);
  }
  grpc::Status Look(grpc::ServerContext* context, const ActRequest* request,
                    ActReply* reply) override {
    return bank_.Run(kLook, *context, *request, *reply);
  }

 private:
  Bank& bank_;
};

class TwinBank final : public Twin::Service {
 public:
  explicit TwinBank(Bank& bank) : bank_(bank) {}
  grpc::Status Act(grpc::ServerContext* context, const ActRequest* request,
                   ActReply* reply) override {
    return bank_.Run(kTwinAct, *context, *request, *reply);
  }

 private:
  Bank& bank_;
};

GuardOptions Options() {
  GuardOptions options;
  options.name_space = kNamespace;
  options.scope = MetadataScope("x-scope");
  MethodPolicy policy;
  policy.lease = absl::Milliseconds(absl::GetFlag(FLAGS_lease_ms));
  policy.max_lease = absl::Milliseconds(absl::GetFlag(FLAGS_max_lease_ms));
  policy.relaxed_reservation = absl::GetFlag(FLAGS_relaxed);
  // The ledger decides.
  if (!policy.relaxed_reservation) {
    policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  }
  options.methods[kAct].policy = policy;
  policy.relaxed_reservation = false;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  options.methods[kLook].policy = policy;
  policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  policy.in_flight = MethodPolicy::InFlight::kWait;
  // Longer than a standby is unreachable before a failover: a waiter would then be answered from
  // data that only the primary has, unless every answer waits for the standby.
  policy.max_wait = absl::Milliseconds(1500);
  options.methods[kTwinAct].policy = policy;
  return options;
}

// The longest time that the database may be unavailable while this starts.
constexpr std::chrono::seconds kOpenLimit(20);
constexpr std::chrono::milliseconds kOpenPause(200);

// Nullptr if it does not need one.
absl::StatusOr<std::shared_ptr<CompletionLedger>> OpenLedger() {
  if (absl::GetFlag(FLAGS_ledger).empty()) return std::shared_ptr<CompletionLedger>();
  PostgresLedgerOptions options;
  options.conninfo = absl::GetFlag(FLAGS_ledger);
  const auto deadline = std::chrono::steady_clock::now() + kOpenLimit;
  while (true) {
    auto opened = PostgresLedger::Open(options);
    if (opened.ok()) return std::shared_ptr<CompletionLedger>(*std::move(opened));
    if (!absl::IsUnavailable(opened.status()) || std::chrono::steady_clock::now() > deadline) {
      return opened.status();
    }
    std::this_thread::sleep_for(kOpenPause);
  }
}

int Fail(const absl::Status& status) {
  std::cerr << "chaos-bank: " << status << "\n";
  return 2;
}

int Serve() {
  Bank bank;
  ProbeBank probe(bank);
  TwinBank twin(bank);
  GuardOptions options = Options();
  auto ledger = OpenLedger();
  if (!ledger.ok()) return Fail(ledger.status());
  options.ledger = *std::move(ledger);
  const auto guard = ServerGuard::Create(MakeDaemonChannel(), std::move(options));
  if (!guard.ok()) return Fail(guard.status());
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen), grpc::InsecureServerCredentials());
  if (auto status = (*guard)->Protect<Probe>(builder, &probe); !status.ok()) return Fail(status);
  if (auto status = (*guard)->Protect<Twin>(builder, &twin); !status.ok()) return Fail(status);
  if (auto status = (*guard)->Install(builder); !status.ok()) return Fail(status);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return Fail(absl::UnavailableError("cannot listen"));
  std::cout << "serving" << std::endl;
  // Until it is killed.
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace idempotency::internal::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("A guarded server of a chaos run.");
  absl::ParseCommandLine(argc, argv);
  return idempotency::internal::testing::Serve();
}
