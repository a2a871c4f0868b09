#ifndef IDEMPOTENCY_TESTS_SUPPORT_FULL_DISK_H_
#define IDEMPOTENCY_TESTS_SUPPORT_FULL_DISK_H_

#include <signal.h>
#include <sys/resource.h>

namespace idempotency::internal::testing {

// While it exists, files of this process cannot grow beyond a limit.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit full{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  sighandler_t handler_;
  rlimit limit_{};
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_FULL_DISK_H_
