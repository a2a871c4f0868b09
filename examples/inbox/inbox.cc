// A queue's consumer that makes each deposit once, however often its message is delivered. To try
// the effect of a crash:
//
//   inbox open --account=alice
//   inbox send --id=m-1 --account=alice --amount_cents=500
//   inbox consume --until_empty --die_when=committed     (killed by itself)
//   inbox consume --until_empty
//   inbox show
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"

#include "examples/inbox/accounts.h"
#include "examples/inbox/consumer.h"
#include "examples/inbox/inbox.pb.h"
#include "examples/inbox/message_queue.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/server_guard/server_guard.h"

ABSL_FLAG(std::string, queue, "queue.db", "the queue's SQLite file");
ABSL_FLAG(std::string, accounts, "accounts.db", "the accounts' SQLite file");
ABSL_FLAG(std::string, idempotencyd, "sqlite:idempotency.db",
          "consume: the address of idempotencyd, or a store (sqlite:PATH, postgresql://...) to "
          "have it inside this process");
ABSL_FLAG(absl::Duration, invisibility, absl::Seconds(10),
          "consume: when a message that was not acknowledged comes again");
ABSL_FLAG(absl::Duration, lease, absl::Seconds(30),
          "consume: when another attempt may follow one whose process died");
ABSL_FLAG(bool, until_empty, false, "consume: end when no message is left");
ABSL_FLAG(std::string, die_when, "",
          "consume: kill -9 of this process at a point: reserved (nothing is done "
          "yet), committed (the deposit is made) or recorded (not acknowledged yet)");
ABSL_FLAG(std::string, id, "", "send: the producer's own name of the message");
ABSL_FLAG(std::string, account, "", "open, send: the account");
ABSL_FLAG(std::int64_t, amount_cents, 0, "send: the amount in cents");

namespace inbox {
namespace {

// Between two reads of a queue without visible messages.
constexpr timespec kPause{0, 20'000'000};

void DieIf(const std::string& when) {
  if (absl::GetFlag(FLAGS_die_when) == when) raise(SIGKILL);
}

absl::Status Open() {
  auto accounts = Accounts::Open(absl::GetFlag(FLAGS_accounts));
  if (!accounts.ok()) return accounts.status();
  return accounts->OpenAccount(absl::GetFlag(FLAGS_account));
}

absl::StatusOr<MessageQueue> OpenQueue() {
  return MessageQueue::Open(absl::GetFlag(FLAGS_queue), absl::GetFlag(FLAGS_invisibility));
}

absl::Status Send() {
  auto queue = OpenQueue();
  if (!queue.ok()) return queue.status();
  v1::Deposit deposit;
  deposit.set_account(absl::GetFlag(FLAGS_account));
  deposit.set_amount_cents(absl::GetFlag(FLAGS_amount_cents));
  return queue->Send(absl::GetFlag(FLAGS_id), deposit.SerializeAsString());
}

absl::Status Show() {
  auto accounts = Accounts::Open(absl::GetFlag(FLAGS_accounts));
  if (!accounts.ok()) return accounts.status();
  auto queue = OpenQueue();
  if (!queue.ok()) return queue.status();
  const auto all = accounts->All();
  const auto waiting = queue->Waiting();
  const auto aside = queue->Aside();
  if (!all.ok()) return all.status();
  if (!waiting.ok()) return waiting.status();
  if (!aside.ok()) return aside.status();
  for (const auto& [name, account] : *all) {
    std::printf("%s: %lld cents in %d deposits\n", name.c_str(),
                static_cast<long long>(account.balance_cents), account.deposits);
  }
  std::printf("queue: %d waiting, %d set aside\n", *waiting, *aside);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<idempotency::ServerGuard>> MakeGuard(
    std::shared_ptr<grpc::Channel> channel) {
  idempotency::GuardOptions options;
  options.name_space = "inbox";
  options.hooks.on_verdict = [](const idempotency::VerdictEvent& event) {
    if (event.verdict == idempotency::VerdictEvent::Verdict::kReserved) DieIf("reserved");
  };
  options.hooks.on_recorded = [](const idempotency::RecordedEvent&) { DieIf("recorded"); };
  return idempotency::ServerGuard::Create(std::move(channel), std::move(options));
}

// Until a signal, or until no message is left.
absl::Status ConsumeAll(MessageQueue& queue, Consumer& consumer, const sigset_t& stop_signals) {
  while (true) {
    const absl::StatusOr<bool> consumed = consumer.Next();
    if (!consumed.ok()) return consumed.status();
    const timespec pause = *consumed ? timespec{} : kPause;
    if (sigtimedwait(&stop_signals, /*info=*/nullptr, &pause) > 0) return absl::OkStatus();
    if (*consumed || !absl::GetFlag(FLAGS_until_empty)) continue;
    const absl::StatusOr<int> waiting = queue.Waiting();
    if (!waiting.ok()) return waiting.status();
    if (*waiting == 0) return absl::OkStatus();
  }
}

absl::Status Consume() {
  // Blocked before any thread is begun, so that they wait for sigtimedwait.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, /*oldset=*/nullptr);

  auto queue = OpenQueue();
  if (!queue.ok()) return queue.status();
  auto accounts = Accounts::Open(absl::GetFlag(FLAGS_accounts));
  if (!accounts.ok()) return accounts.status();
  accounts->OnCommitted([] { DieIf("committed"); });

  const std::string target = absl::GetFlag(FLAGS_idempotencyd);
  std::unique_ptr<idempotency::EmbeddedService> embedded;  // outlives the guard
  if (absl::StartsWith(target, "sqlite:") || absl::StartsWith(target, "postgresql:")) {
    auto opened = idempotency::EmbeddedService::Open(target);
    if (!opened.ok()) return opened.status();
    embedded = *std::move(opened);
  }
  const auto guard = MakeGuard(
      embedded != nullptr ? embedded->channel()
                          : grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                                      idempotency::IdempotencydChannelArguments()));
  if (!guard.ok()) return guard.status();
  Consumer consumer(*queue, *accounts, **guard, absl::GetFlag(FLAGS_lease));
  return ConsumeAll(*queue, consumer, stop_signals);
}

int Main(const std::string& command) {
  absl::Status status = absl::InvalidArgumentError("usage: inbox open|send|consume|show");
  if (command == "open") status = Open();
  if (command == "send") status = Send();
  if (command == "consume") status = Consume();
  if (command == "show") status = Show();
  if (status.ok()) return 0;
  std::fprintf(stderr, "inbox: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace inbox

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "inbox open|send|consume|show: deposits from an at-least-once queue, each made once");
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("inbox"));
  return inbox::Main(words.size() == 2 ? words[1] : "");
}
