#ifndef IDEMPOTENCY_SERVER_RPC_EVENT_LOOP_H_
#define IDEMPOTENCY_SERVER_RPC_EVENT_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <memory>
#include <string>
#include <thread>

namespace idempotency::internal {

// An event of a call, whose address is its tag on a completion queue.
class QueueEvent {
 public:
  virtual void Happened(bool ok) = 0;

 protected:
  ~QueueEvent() = default;
};

// A completion queue of events, and the thread that waits for the network and runs them.
// Thread-safe.
class EventLoop {
 public:
  // `name` is the thread's: 15 characters at most.
  EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue, std::string name);
  // The servers of its calls are shut down, and their calls have ended. Joins the thread.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  grpc::ServerCompletionQueue& queue() { return *queue_; }

 private:
  void Serve();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_EVENT_LOOP_H_
