#include "server/files/file_content.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal {

absl::StatusOr<std::string> FileContent(const std::string& path) {
  const auto unreadable = [] {
    return absl::UnavailableError(absl::StrCat("cannot be read: ", std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return unreadable();
  std::string content;
  std::array<char, 4096> part;
  while (const std::size_t read = std::fread(part.data(), 1, part.size(), file.get())) {
    if (content.size() + read > kMaxFileBytes) {
      return absl::UnavailableError(
          absl::StrCat("cannot be read: it is larger than ", kMaxFileBytes, " bytes"));
    }
    content.append(part.data(), read);
  }
  if (std::ferror(file.get()) != 0) return unreadable();
  return content;
}

}  // namespace idempotency::internal
