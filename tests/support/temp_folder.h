#ifndef IDEMPOTENCY_TESTS_SUPPORT_TEMP_FOLDER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <string>

namespace idempotency::internal::testing {

// A private folder that is removed with the object. Thread-compatible.
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
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_TEMP_FOLDER_H_
