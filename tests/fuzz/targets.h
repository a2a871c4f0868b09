// The fuzz targets (docs/testing.md): all code of this project that reads bytes from outside, each
// part as a function that takes any bytes and ends the process when an invariant is violated. A
// fuzzer generates inputs for one of them (scripts/fuzz.sh, 10 s for each; --nightly 5 minutes);
// corpus_test replays the kept ones in every build.
#ifndef IDEMPOTENCY_TESTS_FUZZ_TARGETS_H_
#define IDEMPOTENCY_TESTS_FUZZ_TARGETS_H_

#include <string_view>
#include <vector>

namespace idempotency::internal::fuzz {

struct Target {
  // The name of its folder in corpus/.
  std::string_view name;
  void (*run)(std::string_view input);
};
// In the order of their names.
std::vector<Target> AllTargets();
// Call it once before the first input. Turns logging off: logged lines are no findings.
void Prepare();

void AccessTokens(std::string_view input);
void Addresses(std::string_view input);
void ClientSession(std::string_view input);
void CommandLineArguments(std::string_view input);
void ErrorDetailsOnWire(std::string_view input);
void ExternalProcessorMessages(std::string_view input);
void FingerprintedRequest(std::string_view input);
void GuardedCalls(std::string_view input);
void KeyMetadata(std::string_view input);
void ParentAndTrace(std::string_view input);
void PolicyOption(std::string_view input);
void RecordKeys(std::string_view input);
void ServerSession(std::string_view input);
void SqliteRows(std::string_view input);
void StoredValues(std::string_view input);
void UnaryRequests(std::string_view input);

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_TARGETS_H_
