#include "server/rpc/event_loop.h"

#include <pthread.h>

#include <utility>

namespace idempotency::internal {

EventLoop::EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue, std::string name)
    : queue_(std::move(queue)), thread_([this, name = std::move(name)] {
        pthread_setname_np(pthread_self(), name.c_str());
        Serve();
      }) {}

EventLoop::~EventLoop() {
  queue_->Shutdown();
  thread_.join();
}

void EventLoop::Serve() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<QueueEvent*>(tag)->Happened(ok);
}

}  // namespace idempotency::internal
