#ifndef IDEMPOTENCY_SERVER_FILES_MEMORY_FILE_H_
#define IDEMPOTENCY_SERVER_FILES_MEMORY_FILE_H_

#include <ctime>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/files/file_descriptor.h"

namespace idempotency::internal {

// A file of this process alone, in memory, with a path for code that can only read
// files. Thread-compatible; the path may be read at any time.
class MemoryFile {
 public:
  static absl::StatusOr<MemoryFile> Make(absl::string_view content);

  // Opens the complete current content.
  std::string path() const;
  // Replaces the content in one step, with a modification time at least one second
  // later, so that a reader detects the change. The previous content stays if that
  // fails.
  absl::Status Replace(absl::string_view content);

 private:
  MemoryFile() = default;

  FileDescriptor file_;
  std::time_t modified_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_FILES_MEMORY_FILE_H_
