#include "core/sqlite_file_place.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {

bool IsMountedAlone(const std::string& file) {
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx found {};
  return statx(AT_FDCWD, file.c_str(), 0, STATX_TYPE, &found) == 0 &&
         (found.stx_attributes & found.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
#else
  static_cast<void>(file);
  return false;
#endif
}

std::optional<SqliteFilePlace::Identity> SqliteFilePlace::IdentityOf(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return Identity{found.st_dev, found.st_ino};
}

SqliteFilePlace SqliteFilePlace::Of(const std::string& database) {
  SqliteFilePlace place;
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    std::string path = absl::StrCat(database, suffix);
    const std::optional<Identity> identity = IdentityOf(path);
    place.files_.push_back({std::move(path), identity});
  }
  return place;
}

std::optional<std::string> SqliteFilePlace::FindMoved() const {
  for (const Placed& file : files_) {
    if (!file.identity) continue;
    const std::optional<Identity> now = IdentityOf(file.path);
    if (!now || now->device != file.identity->device || now->inode != file.identity->inode) {
      return file.path;
    }
  }
  return std::nullopt;
}

}  // namespace idempotency::internal
