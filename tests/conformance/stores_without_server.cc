// The stores that live inside the process.
#include <vector>

#include "tests/conformance/memory_harness.h"
#include "tests/conformance/sqlite_harness.h"
#include "tests/conformance/store_harness.h"

namespace idempotency::internal {

std::vector<StoreUnderTest> StoresUnderTest() {
  return {
      {"Memory", MemoryHarness::Make, MemoryHarness::kForgetsBecause},
      {"Sqlite", SqliteHarness::Make},
  };
}

}  // namespace idempotency::internal
