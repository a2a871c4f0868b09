#ifndef IDEMPOTENCY_TESTS_SUPPORT_TEMP_FOLDER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <string>

namespace idempotency::internal::testing {

// A private folder that is removed with the object. The first one of a process also removes the
// folders that remain of processes that ended without destructors, as by SIGKILL.
//
// A folder in use is locked. The lock is inherited by the processes that are started meanwhile,
// such as a server whose files are there: as long as one of them runs, the folder stays.
//
// Thread-compatible.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  // A descriptor of the folder.
  int lock_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_TEMP_FOLDER_H_
