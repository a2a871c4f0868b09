// Replays what is kept in corpus/, under whatever the test is built with: every
// input that was once a finding, and those that the fuzzers begin with.
//
//   corpus_test CORPUS              all of it
//   corpus_test CORPUS TARGET FILE  one input, for example one that a fuzzer wrote
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/targets.h"

namespace {

namespace fs = std::filesystem;
using idempotency::fuzz::Target;

void Replay(const Target& target, const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string input(std::istreambuf_iterator<char>(in), {});
  std::cout << target.name << ": " << file.filename().string() << std::endl;
  target.run(input);
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
  if (arguments.size() != 1 && arguments.size() != 3) {
    std::cerr << "usage: corpus_test CORPUS [TARGET FILE]\n";
    return 2;
  }
  idempotency::fuzz::Prepare();
  std::size_t replayed = 0;
  for (const Target& target : idempotency::fuzz::AllTargets()) {
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
    replayed += files.size();
  }
  if (arguments.size() == 3) {
    std::cerr << "there is no target " << arguments[1] << "\n";
    return 2;
  }
  std::cout << replayed << " inputs\n";
  return 0;
}
