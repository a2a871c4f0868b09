#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_FILE_LOCK_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_FILE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace idempotency::internal {

// An exclusive lock on a file, held for this object's lifetime and at most the
// process's: the kernel releases it (flock). The empty file stays; removing it
// would let two processes lock two files of one name. Thread-compatible,
// movable.
class FileLock {
 public:
  // Creates `path` if it is missing. FAILED_PRECONDITION if the lock is held,
  // in this process or another, or the file cannot be created.
  static absl::StatusOr<FileLock> Acquire(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_FILE_LOCK_H_
