// libFuzzer's entry points. IDEMPOTENCY_FUZZ_TARGET is the function of this binary, one of those in
// targets.h.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  idempotency::internal::fuzz::Prepare();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  idempotency::internal::fuzz::IDEMPOTENCY_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
