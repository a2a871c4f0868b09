#include "server/rpc/call_queues.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"

#include "server/limits.h"

namespace idempotency::internal {
namespace {

// Calls of each method that a queue accepts without its thread; the thread requests another for
// each that arrives, and gRPC keeps those in between.
constexpr int kRequestedCalls = 8;
// gRPC has one epoll set in a process, and a thread that leaves it wakes another one that polls: a
// second thread costs a lone call 4 switches. The other cores run the batches.
constexpr unsigned int kCoresForThread = 4;

std::vector<std::shared_ptr<EventLoop>> MakeQueues(grpc::ServerBuilder& builder) {
  std::vector<std::shared_ptr<EventLoop>> queues;
  const int threads = CallQueues::Threads(std::thread::hardware_concurrency());
  for (int i = 0; i < threads; ++i) {
    queues.push_back(
        std::make_shared<EventLoop>(builder.AddCompletionQueue(), absl::StrCat("grpc-queue-", i)));
  }
  return queues;
}

}  // namespace

int CallQueues::Threads(unsigned int cores) {
  return std::clamp(static_cast<int>(cores / kCoresForThread), 1, limits::kMaxPollingThreads);
}

CallQueues::CallQueues(grpc::ServerBuilder& builder) : queues_(MakeQueues(builder)) {}

CallQueues::CallQueues(grpc::ServerBuilder& builder, const CallQueues& other) {
  if (BorrowedQueues::Possible()) {
    queues_ = other.queues_;
    borrowed_.emplace(builder, queues_);
  } else {
    queues_ = MakeQueues(builder);
  }
}

CallQueues::~CallQueues() { Stop(); }

void CallQueues::Start(const QueuedMethods& methods, CallTable& table) {
  for (const std::shared_ptr<EventLoop>& queue : queues_) {
    calls_.push_back(std::make_unique<QueuedCalls>(queue->queue(), methods, table));
    calls_.back()->Request(kRequestedCalls);
  }
}

void CallQueues::Stop() {
  for (const auto& calls : calls_) calls->AwaitEnd();
  // gRPC's own events on the idle queue refer to the server.
  borrowed_.reset();
}

}  // namespace idempotency::internal
