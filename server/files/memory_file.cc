#include "server/files/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

absl::Status Failed(absl::string_view what) {
  return absl::InternalError(
      absl::StrCat("cannot ", what, " a file in memory: ", std::strerror(errno)));
}

bool WriteAll(const FileDescriptor& file, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

absl::StatusOr<MemoryFile> MemoryFile::Make(absl::string_view content) {
  MemoryFile made;
  if (absl::Status replaced = made.Replace(content); !replaced.ok()) return replaced;
  return made;
}

std::string MemoryFile::path() const { return absl::StrCat("/proc/self/fd/", file_.get()); }

absl::Status MemoryFile::Replace(absl::string_view content) {
  FileDescriptor next(memfd_create("idempotencyd", MFD_CLOEXEC));
  if (!next.valid()) return Failed("make");
  const std::time_t modified = std::max(std::time(nullptr), modified_ + 1);
  const timespec times[] = {{modified, 0}, {modified, 0}};
  if (fchmod(next.get(), S_IRUSR | S_IWUSR) != 0 || !WriteAll(next, content) ||
      futimens(next.get(), times) != 0) {
    return Failed("write");
  }
  if (!file_.valid()) {
    file_ = std::move(next);
  } else if (dup3(next.get(), file_.get(), O_CLOEXEC) < 0) {
    return Failed("replace");
  }
  modified_ = modified;
  return absl::OkStatus();
}

}  // namespace idempotency::internal
