#include "tests/support/programs.h"

#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal::testing {
namespace {

std::filesystem::path OwnPath() { return std::filesystem::read_symlink("/proc/self/exe"); }

// CMake writes the list next to the test.
bool IsNamed(const std::string& program) {
  std::ifstream list(OwnPath().string() + ".programs");
  for (std::string line; std::getline(list, line);) {
    if (line == program) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> ProgramPath(const std::string& name) {
  const std::string path = (OwnPath().parent_path() / name).string();
  if (MayStart(path)) return path;
  return absl::FailedPreconditionError(
      absl::StrCat(OwnPath().filename().string(), " starts ", name,
                   " and does not name it: add it to PROGRAMS in its idempotency_test()"));
}

bool MayStart(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::weakly_canonical(path, ignored);
  if (program.parent_path() != OwnPath().parent_path() || program == OwnPath()) return true;
  return IsNamed(program.filename().string());
}

}  // namespace idempotency::internal::testing
