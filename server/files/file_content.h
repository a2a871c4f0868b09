#ifndef IDEMPOTENCY_SERVER_FILES_FILE_CONTENT_H_
#define IDEMPOTENCY_SERVER_FILES_FILE_CONTENT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace idempotency::internal {

// More than any file that is read here. A device would have no end.
inline constexpr std::size_t kMaxFileBytes = 16 * 1024 * 1024;

// The content of a file, which may be empty. UNAVAILABLE, with the system's reason, if it is larger
// than kMaxFileBytes or cannot be read: it does not exist, it is a folder, or the process of a file
// in /proc ended meanwhile. Does not throw, unlike std::istreambuf_iterator in the last two cases.
absl::StatusOr<std::string> FileContent(const std::string& path);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_FILES_FILE_CONTENT_H_
