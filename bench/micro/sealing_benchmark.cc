// The processor time that sealing adds to a cycle of the service: a reservation, a completion with
// a reply of 1 KiB, and its replay. Apart from the counted inner loops: a nonce is random.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>

#include "absl/time/time.h"

#include "grpc_idempotency/reply.h"
#include "server/sealing/sealed_reply.h"
#include "server/sealing/sealer.h"
#include "server/store/testing/operations.h"
#include "server/testing/test_key_ring.h"

namespace idempotency::internal {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

Sealer NewSealer() {
  return Sealer(TestKeyRing(TestKey(1, kNow)), kNow, /*accept_unsealed=*/false);
}

CompleteOp CompletionOf(benchmark::State& state) {
  return CompleteNamed("order-1", Uuid::Random(),
                       std::string(static_cast<std::size_t>(state.range(0)), 'r'));
}

void SealReservation(benchmark::State& state) {
  const Sealer sealer = NewSealer();
  const ReserveOp op = ReserveNamed("order-1");
  for (auto _ : state) benchmark::DoNotOptimize(sealer.Seal(op));
}
BENCHMARK(SealReservation);

void SealCompletion(benchmark::State& state) {
  const Sealer sealer = NewSealer();
  const CompleteOp op = CompletionOf(state);
  for (auto _ : state) benchmark::DoNotOptimize(sealer.Seal(op));
}
BENCHMARK(SealCompletion)->Arg(64)->Arg(1024)->Arg(64 * 1024);

void OpenReplay(benchmark::State& state) {
  const Sealer sealer = NewSealer();
  const CompleteOp op = CompletionOf(state);
  Replay replay;
  replay.token = op.token;
  replay.reply = sealer.Seal(op)->reply;
  const ReserveOp reserve = ReserveNamed("order-1");
  for (auto _ : state) {
    if (!sealer.Open(reserve, Verdict(replay)).ok()) state.SkipWithError("does not open");
  }
}
BENCHMARK(OpenReplay)->Arg(64)->Arg(1024)->Arg(64 * 1024);

void SealAndOpen(benchmark::State& state) {
  const Sealer sealer = NewSealer();
  const CompleteOp op = CompletionOf(state);
  const ReserveOp reserve = ReserveNamed("order-1");
  for (auto _ : state) {
    Replay replay;
    replay.token = op.token;
    replay.reply = sealer.Seal(op)->reply;
    if (!sealer.Open(reserve, Verdict(std::move(replay))).ok()) {
      state.SkipWithError("does not open");
    }
  }
}
BENCHMARK(SealAndOpen)->Arg(1024);

}  // namespace
}  // namespace idempotency::internal

BENCHMARK_MAIN();
