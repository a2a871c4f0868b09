#include "tests/support/temp_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

namespace idempotency::internal::testing {
namespace {

// Of no other program, nor of tests that do not lock their folders.
constexpr char kPrefix[] = "idempotency-test.";
constexpr char kRandomPart[] = "XXXXXX";
// Much longer than from the creation of a folder to its lock.
constexpr std::time_t kSecondsToLock = 60;

void OrAbort(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::abort();
}

void Remove(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) return;
  std::fprintf(stderr, "%s is not removed: %s\n", folder.c_str(), error.message().c_str());
}

int Open(const std::string& folder, int flags) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | flags);
}

bool IsOldAndOurs(int folder) {
  struct stat info {};
  if (fstat(folder, &info) != 0) return false;
  const bool is_ours = geteuid() == 0 || info.st_uid == geteuid();
  return is_ours && info.st_mtime < std::time(nullptr) - kSecondsToLock;
}

bool RemoveUnused(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const int folder = Open(entry.path().string(), O_CLOEXEC);
    if (folder < 0) continue;
    if (IsOldAndOurs(folder) && flock(folder, LOCK_EX | LOCK_NB) == 0) Remove(entry.path());
    close(folder);
  }
  return true;
}

}  // namespace

TempFolder::TempFolder() {
  const std::filesystem::path parent = std::filesystem::temp_directory_path();
  [[maybe_unused]] static const bool once = RemoveUnused(parent);
  path_ = (parent / kPrefix).string() + kRandomPart;
  OrAbort(mkdtemp(path_.data()) != nullptr, "mkdtemp");
  // Without O_CLOEXEC: a server that is left running by a dead test keeps the lock.
  lock_ = Open(path_, 0);
  OrAbort(lock_ >= 0, "open");
  OrAbort(flock(lock_, LOCK_EX) == 0, "flock");
}

TempFolder::~TempFolder() {
  Remove(path_);
  close(lock_);
}

}  // namespace idempotency::internal::testing
