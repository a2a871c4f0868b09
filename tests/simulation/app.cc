#include "tests/simulation/app.h"

#include <google/protobuf/wrappers.pb.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "client/connection/session_connection.h"
#include "grpc_idempotency/errors.h"
#include "tests/simulation/stream_wire.h"
#include "tests/simulation/unary_wire.h"
#include "tests/simulation/watched_connection.h"

namespace idempotency::internal::simulation {
namespace {

v1::Reply ReplyOf(const google::protobuf::Message& message) {
  v1::Reply reply;
  message.SerializeToString(reply.mutable_body());
  return reply;
}

v1::Reply ReplyOf(const grpc::Status& status) {
  v1::Reply reply;
  reply.set_code(static_cast<int>(status.error_code()));
  reply.set_message(status.error_message());
  return reply;
}

google::protobuf::StringValue Text(const std::string& text) {
  google::protobuf::StringValue message;
  message.set_value(text);
  return message;
}

absl::Duration ToDuration(Nanos nanos) { return absl::Nanoseconds(nanos); }

}  // namespace

App::App(std::string name, std::int64_t drift_ppm, Nanos wall_error, Application& application,
         Network& network, Daemons& daemons)
    : application_(application),
      network_(network),
      daemons_(daemons),
      process_(std::move(name), drift_ppm, wall_error) {}

void App::Start() {
  std::unique_ptr<Connection> connection =
      std::make_unique<UnaryWire>(network_, daemons_, process_);
  const Plan& plan = application_.plan;
  if (!plan.unary_apps || application_.scheduler.random().Chance(0.5)) {
    SessionConnectionOptions session;
    session.retry_session_after = absl::Seconds(20);
    connection = std::make_unique<SessionConnection>(
        StreamsOver(network_, daemons_, process_, plan), std::move(connection), session);
  }
  connection = Watched(std::move(connection),
                       ConnectionWatch(process_, application_.scheduler, application_.journal));
  GuardOptions options;
  options.name_space = "sim";
  options.scope = SharedScope("everybody");
  options.closing_timeout = absl::Seconds(10);
  options.replay_cache.capacity_bytes = plan.replay_cache ? 4 << 20 : 0;
  options.background_recovery = plan.background_recovery;
  if (plan.ledger) options.ledger = application_.ledger;
  guard_ = ServerGuard::Create(std::move(connection), std::move(options)).value();
  serving_ = true;
}

void App::Stop() {
  // A second request to stop, during its pause.
  if (!serving_) return;
  serving_ = false;
  guard_->Close();
  while (serving_calls_ > 0) application_.scheduler.Sleep(10 * kMillisecond);
  guard_.reset();
  application_.journal.Counted(Count::kGuardEnded);
}

BeginCall App::BeginCallFor(const Call& call) {
  const Plan& plan = application_.plan;
  BeginCall begin;
  begin.operation = call.operation();
  begin.scope = "everybody";
  begin.key = call.key;
  begin.policy.lease = ToDuration(plan.lease);
  begin.policy.max_lease = ToDuration(20 * kSecond);
  begin.policy.retention = plan.retention();
  // Recovery in the background repeats the request with the labels of its call.
  if (!plan.background_recovery) {
    begin.labels["call"] = absl::StrCat(++application_.calls);
  }
  if (call.policy == Call::Policy::kWait) {
    begin.policy.in_flight = MethodPolicy::InFlight::kWait;
    begin.policy.max_wait = absl::Seconds(2);
  }
  if (call.policy == Call::Policy::kRecover || call.policy == Call::Policy::kUnknown) {
    begin.policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  } else if (plan.relaxed) {
    // The ledger decides.
    begin.policy.relaxed_reservation = true;
  } else {
    begin.policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  }
  if (call.policy == Call::Policy::kRecover) {
    begin.recovery = [this](const RecoveryCase& recovery) { return Recover(recovery); };
  }
  return begin;
}

void App::Serve(const Call& call, const std::function<void(const Answer&)>& respond) {
  // It arrived after the server had ended.
  if (guard_ == nullptr) return;
  ++serving_calls_;
  absl::StatusOr<BegunOperation> begun =
      guard_->Begin(BeginCallFor(call), OpaqueRequest{"sim.Request", call.request});
  Answer answer;
  if (!begun.ok()) {
    answer.error = begun.status();
  } else if (begun->decision() == BegunOperation::Decision::kReplay) {
    answer.reply = begun->reply();
    answer.replayed = true;
  } else {
    application_.journal.Counted(Count::kHandlerRan);
    application_.journal.Write("%s %s runs, attempt %u", call.operation().c_str(), call.key.c_str(),
                               begun->execution()->attempt());
    answer = Run(call, *std::move(begun));
  }
  --serving_calls_;
  respond(answer);
}

// The handler.

void App::Work() {
  Random& random = application_.scheduler.random();
  Nanos takes = random.Between(0, 20) * kMillisecond;
  if (!application_.well_behaved && random.Chance(0.15)) {
    takes = random.Between(0, application_.plan.lease * 2);
  }
  application_.scheduler.Sleep(takes);
}

std::string App::ReplyTo(const Call& call, const BegunOperation& begun) {
  return absl::StrCat(call.request, " by attempt ", begun.execution()->attempt(), " number ",
                      application_.scheduler.random().Below(1'000'000'000));
}

void App::Effect(const BegunOperation& begun, bool in_ledger) {
  application_.journal.Write("effect of attempt %u", begun.execution()->attempt());
  if (begun.execution()->lost()) application_.journal.Counted(Count::kEffectAfterLoss);
  application_.checker.OnEffect(*Uuid::Parse(begun.record_id()), begun.execution()->attempt(),
                                in_ledger);
}

Answer App::Run(const Call& call, BegunOperation begun) {
  Random& random = application_.scheduler.random();
  if (random.Chance(0.1)) {
    begun.execution()->Checkpoint("half", [journal = &application_.journal](absl::Status stored) {
      if (stored.ok()) journal->Counted(Count::kCheckpoint);
    });
  }
  Work();
  if (!application_.well_behaved && random.Chance(0.06)) return Decline(std::move(begun));
  // One that checks, and one that does not.
  if (begun.execution()->lost() && random.Chance(0.5)) {
    return Fail(std::move(begun), grpc::StatusCode::CANCELLED);
  }
  if (call.policy == Call::Policy::kRecover) return RunFenced(call, std::move(begun));
  if (application_.plan.ledger) return RunWithLedger(call, std::move(begun));
  Effect(begun, /*in_ledger=*/false);
  Work();
  if (!application_.well_behaved && random.Chance(0.06)) {
    application_.checker.Excuse(*Uuid::Parse(begun.record_id()));
    return Fail(std::move(begun), grpc::StatusCode::INTERNAL);
  }
  if (!application_.well_behaved && random.Chance(0.03)) {
    application_.checker.Excuse(*Uuid::Parse(begun.record_id()));
    application_.journal.Counted(Count::kAbandoned);
    return {std::nullopt, false, absl::UnknownError("an exception")};
  }
  const std::string reply = ReplyTo(call, begun);
  return Complete(std::move(begun), reply);
}

Answer App::RunWithLedger(const Call& call, BegunOperation begun) {
  const google::protobuf::StringValue reply = Text(ReplyTo(call, begun));
  LedgerTransaction transaction;
  transaction.ledger = application_.ledger.get();
  transaction.effect = [&] {
    Effect(begun, /*in_ledger=*/true);
    application_.checker.OnCommitted(*Uuid::Parse(begun.record_id()), ReplyOf(reply));
  };
  if (application_.plan.relaxed && application_.scheduler.random().Chance(0.5)) {
    Work();
    const absl::Status committed = begun.execution()->Commit(transaction, RecordedReply(reply));
    if (!committed.ok()) return Fail(std::move(begun), grpc::StatusCode::ABORTED);
    Work();
    return Complete(std::move(begun), reply.value());
  }
  const absl::Status recorded =
      begun.execution()->RecordInTransaction(transaction, RecordedReply(reply));
  if (!recorded.ok()) return Fail(std::move(begun), grpc::StatusCode::ABORTED);
  Work();
  switch (application_.ledger->Write(*transaction.row, transaction.effect)) {
    case Ledger::Commit::kDone:
      Work();
      return Complete(std::move(begun), reply.value());
    case Ledger::Commit::kRefused:
      return Fail(std::move(begun), grpc::StatusCode::ABORTED);
    case Ledger::Commit::kInDoubt:
      // One that completes it, and one that leaves it unknown.
      if (application_.scheduler.random().Chance(0.5)) {
        return Complete(std::move(begun), reply.value());
      }
      break;
  }
  return Fail(std::move(begun), grpc::StatusCode::UNKNOWN);
}

Answer App::RunFenced(const Call& call, BegunOperation begun) {
  const std::string reply = ReplyTo(call, begun);
  const auto [row, placed] = application_.fenced.emplace(begun.record_id(), reply);
  if (!placed && row->second.empty() && begun.execution()->attempt() > 1) {
    // Recovery put the fence there: earlier attempts cannot act any more.
    row->second = reply;
  } else if (!placed) {
    return Fail(std::move(begun), grpc::StatusCode::ABORTED);
  }
  Effect(begun, /*in_ledger=*/false);
  Work();
  if (!application_.well_behaved && application_.scheduler.random().Chance(0.1)) {
    return Fail(std::move(begun), grpc::StatusCode::INTERNAL);
  }
  return Complete(std::move(begun), reply);
}

RecoveryDecision App::Recover(const RecoveryCase& recovery) {
  application_.journal.Counted(Count::kRecoveryRan);
  Work();
  if (!application_.well_behaved && application_.scheduler.random().Chance(0.1)) {
    return RecoveryDecision::LeaveUnknown();
  }
  const std::string& row = application_.fenced[recovery.record_id];
  application_.journal.Write("recovery of attempt %u finds %s", recovery.attempt,
                             row.empty() ? "nothing" : "the effect");
  return row.empty() ? RecoveryDecision::Release() : RecoveryDecision::CompleteWith(Text(row));
}

// The end of the server.

Answer App::Complete(BegunOperation begun, const std::string& reply) {
  const google::protobuf::StringValue message = Text(reply);
  const absl::Status recorded = begun.Complete(message);
  if (!recorded.ok()) return {std::nullopt, false, recorded};
  return {ReplyOf(message), false, absl::OkStatus()};
}

Answer App::Decline(BegunOperation begun) {
  Random& random = application_.scheduler.random();
  // With a ledger an attempt that follows another may not decline by itself: one that was only slow
  // may still commit.
  const bool may_decline = !application_.plan.ledger || begun.execution()->certainly_first();
  if (!may_decline && application_.plan.relaxed && random.Chance(0.5)) {
    return CommitDecline(std::move(begun));
  }
  if (!may_decline || random.Chance(0.5)) {
    const absl::Status released = begun.Release("not now");
    if (!released.ok()) return {std::nullopt, false, released};
    return {std::nullopt, false, absl::UnavailableError("not now")};
  }
  const grpc::Status declined = DrawDecline();
  const absl::Status recorded = begun.Complete(declined);
  if (!recorded.ok()) return {std::nullopt, false, recorded};
  return {ReplyOf(declined), false, absl::OkStatus()};
}

Answer App::CommitDecline(BegunOperation begun) {
  const grpc::Status declined = DrawDecline();
  LedgerTransaction transaction;
  transaction.ledger = application_.ledger.get();
  transaction.effect = [&] {
    application_.journal.Counted(Count::kDeclineCommitted);
    application_.checker.OnCommitted(*Uuid::Parse(begun.record_id()), ReplyOf(declined));
  };
  const absl::Status committed = begun.execution()->Commit(transaction, RecordedReply(declined));
  if (!committed.ok()) return Fail(std::move(begun), grpc::StatusCode::ABORTED);
  const absl::Status recorded = begun.Complete(declined);
  if (!recorded.ok()) return {std::nullopt, false, recorded};
  return {ReplyOf(declined), false, absl::OkStatus()};
}

grpc::Status App::DrawDecline() {
  return grpc::Status(
      grpc::StatusCode::FAILED_PRECONDITION,
      absl::StrCat("declined, number ", application_.scheduler.random().Below(1'000'000'000)));
}

Answer App::Fail(BegunOperation begun, grpc::StatusCode code) {
  const absl::Status settled = begun.Fail(grpc::Status(code, "failed"));
  if (!settled.ok()) return {std::nullopt, false, settled};
  if (application_.plan.ledger) application_.journal.Counted(Count::kLedgerDecided);
  return {std::nullopt, false, absl::UnknownError("failed")};
}

}  // namespace idempotency::internal::simulation
