// The inner loops under Google Benchmark: their processor time.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/micro/inner_loop.h"

int main(int argc, char** argv) {
  const auto loops = idempotency::internal::bench::AllInnerLoops();
  for (const auto& loop : loops) {
    benchmark::RegisterBenchmark(std::string(loop->name()).c_str(),
                                 [&loop](benchmark::State& state) {
                                   for (auto _ : state) loop->Iterate();
                                 });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
