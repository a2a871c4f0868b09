#ifndef IDEMPOTENCY_SERVER_PROCESS_PARENT_WATCH_H_
#define IDEMPOTENCY_SERVER_PROCESS_PARENT_WATCH_H_

#include <functional>
#include <thread>

namespace idempotency::internal {

// Waits, on a thread of its own, for the end of the process that started this one, or of stdin:
// a server for tests must not outlast them. (A signal on the parent's end, PR_SET_PDEATHSIG, is
// sent when the thread of the parent ends that started this process.)
class ParentWatch {
 public:
  struct Events {
    // Linux 5.3; without effect on an older one, or if the parent is in another PID namespace.
    bool parent = true;
    // stdin has ended, or is closed.
    bool stdin_end = false;
  };

  // `on_end` is called at most once. The parent is the one of this moment: if the process that
  // started this one has ended before, another has taken its place.
  ParentWatch(const Events& events, std::function<void()> on_end);
  // Joins the thread.
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  void Run();

  const std::function<void()> on_end_;
  // -1: not watched.
  int parent_ = -1;
  int input_ = -1;
  int ending_ = -1;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_PARENT_WATCH_H_
