#ifndef IDEMPOTENCY_TESTS_SUPPORT_FILE_MOUNT_H_
#define IDEMPOTENCY_TESTS_SUPPORT_FILE_MOUNT_H_

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace idempotency::internal::testing {

// In a mount namespace of its own: 0 if `then` is true, 1 if it is false, and 2 if this user may
// not mount.
inline int WithAFileMounted(const std::string& file, const std::string& at,
                            bool (*then)(std::string)) {
  const uid_t user = getuid();
  const pid_t child = fork();
  if (child == 0) {
    const bool root = user == 0;
    if (unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) _exit(2);
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(2);
    if (mount(file.c_str(), at.c_str(), nullptr, MS_BIND, nullptr) != 0) _exit(2);
    _exit(then(at) ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_FILE_MOUNT_H_
