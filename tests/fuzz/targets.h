// Everything of ours that reads bytes from outside, each as a function that
// takes any bytes and ends the process when what must be so is not. A fuzzer
// makes up inputs for one of them; corpus_test replays those that are kept.
#ifndef IDEMPOTENCY_TESTS_FUZZ_TARGETS_H_
#define IDEMPOTENCY_TESTS_FUZZ_TARGETS_H_

#include <string_view>
#include <vector>

namespace idempotency::internal::fuzz {

struct Target {
  // Of its folder in corpus/.
  std::string_view name;
  void (*run)(std::string_view input);
};
// In the order of their names.
std::vector<Target> AllTargets();
// Before the first input, once: what they log is no finding.
void Prepare();

void Addresses(std::string_view input);
void ClientSession(std::string_view input);
void CommandLineArguments(std::string_view input);
void ErrorDetailsOnWire(std::string_view input);
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
