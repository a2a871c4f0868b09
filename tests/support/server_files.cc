#include "tests/support/server_files.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace idempotency::internal::testing {
namespace {

bool GiveAway(const std::string& path, mode_t mode) {
  if (chmod(path.c_str(), mode) != 0) return false;
  if (geteuid() != 0) return true;
  const passwd* const user = getpwnam("postgres");
  return user != nullptr && chown(path.c_str(), user->pw_uid, user->pw_gid) == 0;
}

void MustGiveAway(const std::string& path, mode_t mode) {
  if (GiveAway(path, mode)) return;
  std::fprintf(stderr, "%s cannot be given to the user postgres\n", path.c_str());
  std::abort();
}

}  // namespace

ServerFiles::ServerFiles() { MustGiveAway(folder_.path(), 0755); }

std::string ServerFiles::Write(const std::string& name, const std::string& content, mode_t mode) {
  const std::string path = folder_.File(name);
  std::ofstream(path) << content;
  MustGiveAway(path, mode);
  return path;
}

}  // namespace idempotency::internal::testing
