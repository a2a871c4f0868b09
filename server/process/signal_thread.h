#ifndef IDEMPOTENCY_SERVER_PROCESS_SIGNAL_THREAD_H_
#define IDEMPOTENCY_SERVER_PROCESS_SIGNAL_THREAD_H_

#include <functional>
#include <thread>

namespace idempotency::internal {

// Turns SIGTERM and SIGINT into a call on its own thread, which may call any
// function, unlike a signal handler. The second signal ends the process at
// once, with the status that a shell gives for it.
class SignalThread {
 public:
  // Blocks both signals in the calling thread and in those that it starts
  // afterwards, so create it before all other threads. SIGHUP and SIGPIPE are
  // ignored from then on: nothing is reloaded, and a closed stdout is not
  // fatal. `on_first` is called once, with the signal's number.
  explicit SignalThread(std::function<void(int)> on_first);
  // Joins the thread. The signals stay blocked.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void Run();

  const std::function<void(int)> on_first_;
  // The events that the thread waits for: the signals, and the end.
  int signals_ = -1;
  int ending_ = -1;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_SIGNAL_THREAD_H_
