// Replays the inputs in corpus/, under any sanitizer of the build: every input that was once a
// finding, and the fuzzers' seeds. With a number, as many more for each target, derived from them;
// one that is a finding is kept in ./made_up_input.
//
//   corpus_test CORPUS              all of it
//   corpus_test CORPUS NUMBER       and NUMBER of others for each target
//   corpus_test CORPUS TARGET FILE  one input, for example one that a fuzzer wrote
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/targets.h"

namespace {

namespace fs = std::filesystem;
using idempotency::internal::fuzz::Target;

std::string Read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Replay(const Target& target, const fs::path& file) {
  std::cout << target.name << ": " << file.filename().string() << std::endl;
  target.run(Read(file));
}

// The same ones in every run, so that a failure can be repeated.
constexpr std::uint64_t kSeed = 1;

void MakeUp(const Target& target, const std::vector<fs::path>& files, int number) {
  std::cout << target.name << ": " << number << " made up" << std::endl;
  std::vector<std::string> inputs;
  for (const fs::path& file : files) inputs.push_back(Read(file));
  idempotency::internal::fuzz::Mutator mutator(std::move(inputs), kSeed);
  for (; number > 0; --number) {
    const std::string input = mutator.Next();
    std::ofstream("made_up_input", std::ios::binary)
        .write(input.data(), static_cast<std::streamsize>(input.size()));
    target.run(input);
  }
  fs::remove("made_up_input");
}

std::vector<fs::path> FilesOf(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  int made_up = 0;
  if (arguments.empty() || arguments.size() > 3 ||
      (arguments.size() == 2 && !absl::SimpleAtoi(arguments[1], &made_up))) {
    std::cerr << "usage: corpus_test CORPUS [NUMBER | TARGET FILE]\n";
    return 2;
  }
  idempotency::internal::fuzz::Prepare();
  std::size_t replayed = 0;
  for (const Target& target : idempotency::internal::fuzz::AllTargets()) {
    if (arguments.size() == 3) {
      if (target.name != arguments[1]) continue;
      Replay(target, arguments[2]);
      return 0;
    }
    const std::vector<fs::path> files = FilesOf(fs::path(arguments[0]) / target.name);
    if (files.empty()) {
      std::cerr << "no corpus for " << target.name << "\n";
      return 1;
    }
    for (const fs::path& file : files) Replay(target, file);
    if (made_up > 0) MakeUp(target, files, made_up);
    replayed += files.size();
  }
  if (arguments.size() == 3) {
    std::cerr << "there is no target " << arguments[1] << "\n";
    return 2;
  }
  std::cout << replayed << " inputs, and " << made_up << " made up for each target\n";
  return 0;
}
