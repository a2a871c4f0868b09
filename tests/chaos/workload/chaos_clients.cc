// The clients of a chaos run: threads that call guarded servers, and threads that send operations
// to idempotencyd itself. Every process of a run with the same seed and epoch calls with the same
// keys at the same time. Works until it reads a line on stdin, "settle": then it settles every key,
// reads each, and ends. The end of stdin ends it at once.
//
//   chaos-clients --name=NAME --log=FILE --banks=ADDRESS;... --idempotencyd=ADDRESS
//                 --seed=N --epoch_ns=N --epoch_ms=N
//                 [--tls_ca=FILE --tls_cert=FILE --tls_key=FILE]
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "grpc_idempotency/client/connection_factory.h"
#include "tests/chaos/workload/daemon_channel.h"
#include "tests/chaos/workload/drawn_calls.h"
#include "tests/chaos/workload/guarded_client.h"
#include "tests/chaos/workload/known_records.h"
#include "tests/chaos/workload/raw_burst.h"
#include "tests/chaos/workload/raw_client.h"
#include "tests/chaos/workload/settlement.h"
#include "tests/chaos/workload/settler.h"
#include "tests/chaos/workload/stop_sign.h"

ABSL_FLAG(std::string, name, "client", "name in the history");
ABSL_FLAG(std::string, log, "", "file of its history, created new");
ABSL_FLAG(std::string, banks, "", "guarded servers separated by ';', those with the ledger first");
ABSL_FLAG(int, with_ledger, 2, "number of servers with the ledger");
ABSL_FLAG(std::uint64_t, seed, 1, "seed of the calls");
ABSL_FLAG(std::int64_t, epoch_ns, 0, "start of the run by CLOCK_MONOTONIC");
ABSL_FLAG(std::int64_t, epoch_ms, 0, "start of the run by the wall clock");
ABSL_FLAG(int, callers, 24, "threads that call guarded servers");
ABSL_FLAG(int, raw, 2, "threads that call idempotencyd");
ABSL_FLAG(int, raw_round_ms, 60, "interval at which each raw thread uses all its records");

namespace idempotency::internal::testing {
namespace {

// The number of tries of a logical operation.
constexpr int kTries = 4;

void CallGuarded(GuardedClient& client, const DrawnCalls& calls, std::mt19937_64 random,
                 StopSign& stop) {
  while (stop.Pause(std::chrono::milliseconds(0))) {
    const DrawnCall call = calls.Draw(random);
    for (int i = 0; i < kTries; ++i) {
      if (client.Call(call, random()) != GuardedClient::Answer::kOpen) break;
      if (!stop.Pause(std::chrono::milliseconds(30 + random() % 300))) return;
    }
  }
}

void CallRaw(RawClient& client, KnownRecords& known, std::mt19937_64 random, StopSign& stop) {
  const std::chrono::milliseconds pause(absl::GetFlag(FLAGS_raw_round_ms));
  while (true) {
    RawBurst burst(client, known, random);
    for (int i = 0; i < RawBurst::kRounds; ++i) {
      if (!stop.Pause(burst.Round() ? pause : pause + std::chrono::milliseconds(300))) return;
    }
  }
}

// A key is no longer used this long after its first call.
constexpr std::chrono::seconds kOld(30);
constexpr std::chrono::seconds kSettleLimit(5);
constexpr int kSettlers = 2;

// Settles operations that callers abandoned. So few are left to be settled at the end of a run of
// any length.
void SettleOld(Settler& settler, KnownRecords& known, StopSign& stop) {
  while (stop.Pause(std::chrono::milliseconds(100))) {
    while (auto record = known.TakeOlderThan(std::chrono::steady_clock::now() - kOld)) {
      settler.Settle(*record, std::chrono::steady_clock::now() + kSettleLimit);
      if (!stop.Pause(std::chrono::milliseconds(0))) return;
    }
  }
}

std::vector<std::thread> StartThreads(GuardedClient& guarded, RawClient& raw, Settler& settler,
                                      KnownRecords& known, StopSign& stop) {
  const DrawnCalls calls(absl::GetFlag(FLAGS_seed), absl::GetFlag(FLAGS_epoch_ns),
                         absl::FromUnixMillis(absl::GetFlag(FLAGS_epoch_ms)));
  std::vector<std::thread> threads;
  const auto random = [&threads] {
    const std::string name = absl::GetFlag(FLAGS_name);
    std::seed_seq seeds(name.begin(), name.end());
    std::mt19937_64 generator(seeds);
    return std::mt19937_64(generator() ^ absl::GetFlag(FLAGS_seed) ^ (threads.size() << 32));
  };
  for (int i = 0; i < absl::GetFlag(FLAGS_callers); ++i) {
    threads.emplace_back([&guarded, calls, generator = random(), &stop] {
      pthread_setname_np(pthread_self(), "caller");
      CallGuarded(guarded, calls, generator, stop);
    });
  }
  for (int i = 0; i < absl::GetFlag(FLAGS_raw); ++i) {
    threads.emplace_back([&raw, &known, generator = random(), &stop] {
      pthread_setname_np(pthread_self(), "raw");
      CallRaw(raw, known, generator, stop);
    });
  }
  for (int i = 0; i < kSettlers; ++i) {
    threads.emplace_back([&settler, &known, &stop] {
      pthread_setname_np(pthread_self(), "settler");
      SettleOld(settler, known, stop);
    });
  }
  return threads;
}

int Work() {
  HistoryLog log(absl::GetFlag(FLAGS_log));
  KnownRecords known;
  GuardedClient guarded(absl::GetFlag(FLAGS_name),
                        absl::StrSplit(absl::GetFlag(FLAGS_banks), ';', absl::SkipEmpty()),
                        absl::GetFlag(FLAGS_with_ledger), log, known);
  RawClient raw(absl::StrCat(absl::GetFlag(FLAGS_name), "-raw"),
                MakeConnection(MakeDaemonChannel()), log);
  Settler settler(guarded, raw, known);
  StopSign stop;
  std::vector<std::thread> threads = StartThreads(guarded, raw, settler, known, stop);
  std::cout << "working" << std::endl;
  std::string line;
  const bool settle = std::getline(std::cin, line) && line == "settle";
  stop.Raise();
  for (std::thread& thread : threads) thread.join();
  if (!settle) return 0;
  std::cout << Settlement(known.All(), settler, raw).Run() << std::endl;
  return 0;
}

}  // namespace
}  // namespace idempotency::internal::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("The clients of a chaos run.");
  absl::ParseCommandLine(argc, argv);
  return idempotency::internal::testing::Work();
}
