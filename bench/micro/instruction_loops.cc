// The inner loops for callgrind (scripts/instructions.sh): a fixed number of iterations of each,
// inside a function that callgrind can select.
#include <cstdio>

#include "bench/micro/inner_loop.h"

namespace {

constexpr int kWarmup = 20;
constexpr int kIterations = 100;

}  // namespace

// The counted function, after which callgrind writes its count.
extern "C" __attribute__((noinline)) void IdempotencyCountedIterations(
    idempotency::internal::bench::InnerLoop* loop) {
  for (int i = 0; i < kIterations; ++i) loop->Iterate();
}

int main() {
  for (const auto& loop : idempotency::internal::bench::AllInnerLoops()) {
    // Fills the allocator's caches, and names that are looked up once.
    for (int i = 0; i < kWarmup; ++i) loop->Iterate();
    IdempotencyCountedIterations(loop.get());
    std::printf("%.*s %d\n", static_cast<int>(loop->name().size()), loop->name().data(),
                kIterations);
  }
  return 0;
}
