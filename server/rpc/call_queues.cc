#include "server/rpc/call_queues.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

// Calls of each method that a queue accepts without its thread; the thread requests another for
// each that arrives, and gRPC keeps those in between.
constexpr int kRequestedCalls = 8;
// gRPC has one epoll set in a process, and a thread that leaves it wakes another one that polls: a
// second thread costs a lone call 4 switches. The other cores run the batches.
constexpr unsigned int kCoresForThread = 4;

}  // namespace

int CallQueues::Threads(unsigned int cores) {
  return std::clamp(static_cast<int>(cores / kCoresForThread), 1, limits::kMaxPollingThreads);
}

CallQueues::CallQueues(grpc::ServerBuilder& builder) {
  const int threads = Threads(std::thread::hardware_concurrency());
  for (int i = 0; i < threads; ++i) queues_.push_back(builder.AddCompletionQueue());
}

void CallQueues::Start(const QueuedMethods& methods) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    calls_.push_back(std::make_unique<QueuedCalls>(*queues_[i], methods));
    QueuedCalls& calls = *calls_.back();
    calls.Request(kRequestedCalls);
    threads_.emplace_back([&calls, name = absl::StrCat("grpc-queue-", i)] {
      pthread_setname_np(pthread_self(), name.c_str());
      calls.Serve();
    });
  }
}

void CallQueues::Stop() {
  for (const auto& calls : calls_) calls->AwaitEnd();
}

CallQueues::~CallQueues() {
  Stop();
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  if (!threads_.empty()) return;
  // Never started: gRPC requires that a queue is found empty.
  void* tag = nullptr;
  bool ok = false;
  for (const auto& queue : queues_) {
    while (queue->Next(&tag, &ok)) {
    }
  }
}

}  // namespace idempotency::internal
