// What libFuzzer asks for, over all targets; IDEMPOTENCY_FUZZ_TARGET names the
// one of this binary.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

using Run = void (*)(std::string_view);

Run Prepared() {
  idempotency::fuzz::Prepare();
  for (const idempotency::fuzz::Target& target : idempotency::fuzz::AllTargets()) {
    if (target.name == IDEMPOTENCY_FUZZ_TARGET) return target.run;
  }
  __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Run run = Prepared();
  run({reinterpret_cast<const char*>(data), size});
  return 0;
}
