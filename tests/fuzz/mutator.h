#ifndef IDEMPOTENCY_TESTS_FUZZ_MUTATOR_H_
#define IDEMPOTENCY_TESTS_FUZZ_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace idempotency::internal::fuzz {

// Derives inputs from kept ones, without a compiler's help: bits and bytes changed, pieces cut,
// doubled, or taken from another input. Unlike libFuzzer it does not use coverage; it is available
// in every build. One seed, one sequence. Thread-compatible.
class Mutator {
 public:
  // `inputs` has at least one.
  Mutator(std::vector<std::string> inputs, std::uint64_t seed);

  // A derived one; at most 4 KiB, libFuzzer's limit here.
  std::string Next();

 private:
  std::size_t Below(std::size_t bound);
  void ChangeBit(std::string& input);
  void ChangeByte(std::string& input);
  void Cut(std::string& input);
  void Double(std::string& input);
  void Splice(std::string& input);

  const std::vector<std::string> inputs_;
  std::mt19937_64 random_;
};

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_MUTATOR_H_
