#ifndef IDEMPOTENCY_SERVER_FILES_FILE_DESCRIPTOR_H_
#define IDEMPOTENCY_SERVER_FILES_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace idempotency::internal {

// Owns at most one descriptor (-1: empty), and closes it. Thread-compatible.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = other.Release();
    }
    return *this;
  }

  bool valid() const { return number_ >= 0; }
  int get() const { return number_; }
  // From then on the caller must close it.
  int Release() { return std::exchange(number_, -1); }
  void Close() {
    if (valid()) close(Release());
  }

 private:
  int number_ = -1;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_FILES_FILE_DESCRIPTOR_H_
