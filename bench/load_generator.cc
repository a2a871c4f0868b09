// Puts load on idempotencyd or on a Charges server and prints its measurements as one
// line of JSON. bench/comparison runs it; run it by hand to measure a single number.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "bench/charge_workload.h"
#include "bench/closed_loop.h"
#include "bench/cycle_workload.h"
#include "bench/hot_wait.h"
#include "bench/load_report.h"
#include "bench/mixed_workload.h"
#include "bench/numbered_keys.h"
#include "bench/offered_load.h"
#include "bench/open_loop.h"
#include "bench/record_requests.h"
#include "bench/replay_workload.h"
#include "bench/wait_workload.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"

ABSL_FLAG(std::string, target, "127.0.0.1:7411", "The server: idempotencyd, or a Charges server.");
ABSL_FLAG(bool, unary, false, "One call per operation instead of a Session stream.");
ABSL_FLAG(int, in_flight, 64, "Concurrent pieces (closed loops).");
ABSL_FLAG(double, rate, 1000, "Pieces per second (`mixed`).");
ABSL_FLAG(absl::Duration, warmup, absl::Milliseconds(500), "Warm-up time before the measurement.");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(5), "Duration of the measurement.");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(10), "Time limit for one answer.");
ABSL_FLAG(std::uint64_t, pieces, 0, "Ends after this number of pieces; 0: after the duration.");
ABSL_FLAG(std::size_t, reply_bytes, 256, "Size of a reply's body.");
ABSL_FLAG(std::string, name_space, "bench", "Namespace of the records.");
ABSL_FLAG(double, hashed_share, 0, "Share of the keys that are UUIDv4 instead of UUIDv7.");
ABSL_FLAG(std::uint64_t, seed, 0, "Seed of the keys; 0 takes another seed each time.");
ABSL_FLAG(std::int64_t, first_key_ms, 0,
          "Unix time in the first key, for repeated keys; 0: fresh keys.");
ABSL_FLAG(std::uint64_t, keys, 10000, "Number of keys that `replays` and --key=replayed use.");
ABSL_FLAG(std::string, key, "none", "`charges`: none (unguarded), fresh or replayed.");
ABSL_FLAG(std::vector<std::string>, offer, {},
          "`offered`: NAMESPACE:RATE:MAX_IN_FLIGHT,... in cycles per second.");
ABSL_FLAG(int, streams, 1, "Streams of the session.");
ABSL_FLAG(int, waiters, 64, "`hot_wait`: duplicates that wait.");
ABSL_FLAG(int, rounds, 10, "`hot_wait`: number of rounds.");

namespace idempotency::internal::bench {
namespace {

constexpr char kUsage[] = R"(Puts load on a server and prints one line of JSON.

  idempotency-bench cycles    Reserve + Complete of fresh keys, --in_flight at a time
  idempotency-bench replays   Reserve of --keys completed ones: run `cycles` first with
                              the same --seed and --first_key_ms, and --pieces=KEYS
  idempotency-bench charges   calls of a Charges server, guarded (--key) or not
  idempotency-bench mixed     first calls, replays and waiting duplicates, at a --rate,
                              counted from the due time of each; needs keys as `replays`
  idempotency-bench offered   cycles of several namespaces, each at its own rate
  idempotency-bench hot_wait  one slow execution with many waiting duplicates

Example: cycles of 64 callers for 5 s, against a daemon on SQLite:
  idempotencyd serve --store=sqlite:/tmp/records.db &
  idempotency-bench cycles --in_flight=64 --duration=5s
)";

constexpr std::chrono::seconds kConnectLimit(10);

std::shared_ptr<grpc::Channel> MakeChannel() {
  grpc::ChannelArguments arguments = IdempotencydChannelArguments();
  // Otherwise gRPC would let channels to one address share their connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::GetFlag(FLAGS_target), grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::unique_ptr<Connection> MakeConnectionFromFlags(std::shared_ptr<grpc::Channel> channel) {
  ConnectionOptions options;
  if (absl::GetFlag(FLAGS_unary)) options.kind = ConnectionOptions::Kind::kUnary;
  options.session.streams = absl::GetFlag(FLAGS_streams);
  return MakeConnection(std::move(channel), options);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect() {
  auto channel = MakeChannel();
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectLimit)) {
    return absl::UnavailableError(
        absl::StrCat("nobody answers on ", absl::GetFlag(FLAGS_target), " (--target)"));
  }
  return channel;
}

NumberedKeys::Options KeysFromFlags() {
  NumberedKeys::Options keys;
  keys.seed = absl::GetFlag(FLAGS_seed);
  if (keys.seed == 0) {
    std::random_device random;
    keys.seed = random() | std::uint64_t{random()} << 32;
  }
  if (absl::GetFlag(FLAGS_first_key_ms) != 0) {
    keys.first = absl::FromUnixMillis(absl::GetFlag(FLAGS_first_key_ms));
  }
  keys.hashed_share = absl::GetFlag(FLAGS_hashed_share);
  return keys;
}

RecordRequests::Options RequestsFromFlags() {
  RecordRequests::Options options;
  options.name_space = absl::GetFlag(FLAGS_name_space);
  options.reply_bytes = absl::GetFlag(FLAGS_reply_bytes);
  options.timeout = absl::GetFlag(FLAGS_timeout);
  options.keys = KeysFromFlags();
  return options;
}

ClosedLoop::Options ClosedLoopFromFlags() {
  ClosedLoop::Options options;
  options.in_flight = absl::GetFlag(FLAGS_in_flight);
  options.warmup = absl::GetFlag(FLAGS_warmup);
  options.duration = absl::GetFlag(FLAGS_duration);
  if (absl::GetFlag(FLAGS_pieces) > 0) options.pieces = absl::GetFlag(FLAGS_pieces);
  return options;
}

std::string RunClosed(Workload& workload) {
  LoadReport report;
  ClosedLoop(workload, report, ClosedLoopFromFlags()).Run();
  return report.ToJson();
}

absl::StatusOr<std::string> RunCharges(const std::shared_ptr<grpc::Channel>& channel) {
  ChargeWorkload::Options options;
  options.timeout = absl::GetFlag(FLAGS_timeout);
  const std::string key = absl::GetFlag(FLAGS_key);
  if (key != "none") options.keys = KeysFromFlags();
  if (key == "replayed") options.replayed_keys = absl::GetFlag(FLAGS_keys);
  if (key != "none" && key != "fresh" && key != "replayed") {
    return absl::InvalidArgumentError("--key takes none, fresh or replayed");
  }
  ChargeWorkload workload(channel, options);
  return RunClosed(workload);
}

std::string RunMixed(Connection& connection) {
  RecordRequests::Options options = RequestsFromFlags();
  const RecordRequests completed(options);
  // The others use each key once.
  options.keys.first.reset();
  ++options.keys.seed;
  const RecordRequests fresh(options);
  CycleWorkload first(connection, fresh);
  ReplayWorkload replay(connection, completed, absl::GetFlag(FLAGS_keys));
  WaitWorkload wait(connection, fresh);
  MixedWorkload mixed(first, replay, wait);
  OpenLoop::Options loop;
  loop.rate = absl::GetFlag(FLAGS_rate);
  loop.warmup = absl::GetFlag(FLAGS_warmup);
  loop.duration = absl::GetFlag(FLAGS_duration);
  if (loop.rate <= 0) return RunClosed(mixed);
  LoadReport report;
  OpenLoop(mixed, report, loop).Run();
  return report.ToJson();
}

absl::StatusOr<std::string> RunOffered() {
  std::vector<OfferedLoad::Namespace> namespaces;
  for (const std::string& text : absl::GetFlag(FLAGS_offer)) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    OfferedLoad::Namespace offered;
    if (parts.size() != 3 || !absl::SimpleAtod(parts[1], &offered.rate) || offered.rate <= 0 ||
        !absl::SimpleAtoi(parts[2], &offered.max_in_flight)) {
      return absl::InvalidArgumentError("--offer takes NAMESPACE:RATE:MAX_IN_FLIGHT,...");
    }
    offered.name = parts[0];
    namespaces.push_back(std::move(offered));
  }
  OfferedLoad::Options options;
  options.requests = RequestsFromFlags();
  options.warmup = absl::GetFlag(FLAGS_warmup);
  options.duration = absl::GetFlag(FLAGS_duration);
  return OfferedLoad([] { return MakeConnectionFromFlags(MakeChannel()); }, options)
      .Run(namespaces);
}

absl::StatusOr<std::string> RunHotWait(Connection& connection) {
  const RecordRequests requests(RequestsFromFlags());
  HotWait::Options options;
  options.waiters = absl::GetFlag(FLAGS_waiters);
  HotWait hot_wait(connection, requests, options);
  std::vector<std::string> waits;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    const auto waited = hot_wait.Run(static_cast<std::uint64_t>(round));
    if (!waited.ok()) return waited.status();
    waits.push_back(absl::StrFormat("%.3f", absl::ToDoubleMilliseconds(*waited)));
  }
  return absl::StrCat("{\"waits_ms\":[", absl::StrJoin(waits, ","), "]}");
}

absl::StatusOr<std::string> Run(const std::string& command) {
  auto channel = Connect();
  if (!channel.ok()) return channel.status();
  if (command == "charges") return RunCharges(*channel);
  if (command == "offered") return RunOffered();
  const std::unique_ptr<Connection> connection = MakeConnectionFromFlags(*channel);
  if (command == "mixed") return RunMixed(*connection);
  if (command == "hot_wait") return RunHotWait(*connection);
  const RecordRequests requests(RequestsFromFlags());
  if (command == "cycles") {
    CycleWorkload workload(*connection, requests);
    return RunClosed(workload);
  }
  if (command == "replays") {
    ReplayWorkload workload(*connection, requests, absl::GetFlag(FLAGS_keys));
    return RunClosed(workload);
  }
  return absl::InvalidArgumentError(
      "the commands are cycles, replays, charges, mixed, offered and hot_wait (see --help)");
}

}  // namespace
}  // namespace idempotency::internal::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(idempotency::internal::bench::kUsage);
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  const auto json = idempotency::internal::bench::Run(arguments.size() == 2 ? arguments[1] : "");
  if (!json.ok()) {
    std::cerr << "idempotency-bench: " << json.status().message() << "\n";
    return 2;
  }
  std::cout << *json << std::endl;
  // Not through the destructors of globals: the thread that made the last callback may still be
  // inside gRPC, which destroys its own globals.
  std::_Exit(0);
}
