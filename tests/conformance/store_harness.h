#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_STORE_HARNESS_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_STORE_HARNESS_H_

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/store.h"

namespace idempotency::internal {

// One fresh, empty store and the clock that it decides by. Every test makes
// its own and destroys it; harnesses of different tests may run side by side.
// Used from one thread, except store(), whose Store is thread-safe.
class StoreHarness {
 public:
  virtual ~StoreHarness() = default;

  virtual Store& store() = 0;

  // The store's clock. Frozen between calls of Advance, in whole microseconds; starts anywhere near
  // the present. Advance takes whole microseconds.
  virtual absl::Time Now() = 0;
  virtual void Advance(absl::Duration duration) = 0;

  // Closes the store and opens it again over the same data, as a restarted process would. The clock
  // continues. References from store() are void.
  virtual absl::Status Reopen() = 0;
};

// One line of the list of stores under test.
struct StoreUnderTest {
  // Letters and digits: becomes part of the tests' names.
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<StoreHarness>>()> make;
  // Why data does not survive Reopen. nullopt: it does.
  std::optional<std::string> forgets_because = std::nullopt;
  // The differences between a service's answers and its store's.
  //
  // Why an empty checkpoint leaves the stored one unchanged. nullopt: it replaces it.
  std::optional<std::string> keeps_checkpoint_because = std::nullopt;
  // Why a batch whose replies together weigh too much is answered completely. nullopt: some
  // operations are OVERLOADED.
  std::optional<std::string> repeats_because = std::nullopt;
  // Why labels with control characters are REQUEST_INVALID. nullopt: they come back unchanged.
  std::optional<std::string> refuses_controls_because = std::nullopt;
  // Why a version under several keys is REQUEST_INVALID. nullopt: it is stored.
  std::optional<std::string> refuses_repeated_versions_because = std::nullopt;
  // Why the digests of a record's fingerprints are not those that were sent. nullopt: they are.
  std::optional<std::string> keys_fingerprints_because = std::nullopt;
  // Why the gauges are those of the last pass of the sweep. nullopt: they are those of now.
  std::optional<std::string> gauges_lag_because = std::nullopt;
  // How many reservations the racing test makes, unless IDEMPOTENCY_RACE_RESERVATIONS says another
  // number.
  int racing_reservations = 20'000;
  // How many operations the random test makes.
  int random_operations = 20'000;
  // The suites that run over it, by name; empty: all.
  std::vector<std::string> suites = {};
};

// For GoogleTest's messages.
inline void PrintTo(const StoreUnderTest& store, std::ostream* out) { *out << store.name; }

// The stores that this test binary runs the suite over. Each binary links the
// same tests (CONFORMANCE_SUITE in CMakeLists.txt) with a definition of its
// own: stores_without_server.cc, or one for a store that needs a server, or
// wire_harness.cc for the wire.
// Another store is one more line there.
std::vector<StoreUnderTest> StoresUnderTest();
// The harnesses over which `suite` runs.
std::vector<StoreUnderTest> StoresUnder(const std::string& suite);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_STORE_HARNESS_H_
