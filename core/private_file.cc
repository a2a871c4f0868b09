#include "core/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace idempotency::internal {

void RestrictFile(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) == 0) return;
  // It fails for a file of another user, whose permissions apply.
  static_cast<void>(chmod(path.c_str(), found.st_mode & S_IRWXU));
}

void CreatePrivateFile(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC;
  int made = open(path.c_str(), kFlags | O_EXCL, S_IRUSR | S_IWUSR);
  struct stat found {};
  const bool link_to_no_file = made < 0 && errno == EEXIST && stat(path.c_str(), &found) != 0;
  if (link_to_no_file) made = open(path.c_str(), kFlags, S_IRUSR | S_IWUSR);
  if (made >= 0) close(made);
}

}  // namespace idempotency::internal
