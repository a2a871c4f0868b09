#ifndef IDEMPOTENCY_TESTS_SUPPORT_SERVER_FILES_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SERVER_FILES_H_

#include <sys/types.h>

#include <string>

#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {

// Files of servers that do not run as root: where the tests do, they belong to the user postgres.
//
// Thread-compatible.
class ServerFiles {
 public:
  ServerFiles();

  // Returns its path. Aborts if it cannot be written, or there is no such user.
  std::string Write(const std::string& name, const std::string& content, mode_t mode = 0644);
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SERVER_FILES_H_
