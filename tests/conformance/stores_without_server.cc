// The stores that live inside the process.
#include <vector>

#include "tests/conformance/memory_harness.h"
#include "tests/conformance/sealed_harness.h"
#include "tests/conformance/sqlite_harness.h"
#include "tests/conformance/store_harness.h"

namespace idempotency::internal {

std::vector<StoreUnderTest> StoresUnderTest() {
  const StoreUnderTest memory = {"Memory", MemoryHarness::Make, MemoryHarness::kForgetsBecause};
  const StoreUnderTest sqlite = {"Sqlite", SqliteHarness::Make};
  return {memory, sqlite, Sealed(memory), Sealed(sqlite)};
}

}  // namespace idempotency::internal
