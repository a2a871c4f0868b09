#include "interceptors/server/threads/single_polling_thread.h"

#include <grpc/support/cpu.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "core/mutex.h"

namespace idempotency::internal {
namespace {

constexpr unsigned int kMinThreads = 2;
constexpr unsigned int kMaxThreads = 16;

// What a call needs until its callback has begun.
struct FailingCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

// Runs `callback` on a thread of gRPC's.
void RunOnGrpcThread(grpc::GenericStub& stub, std::function<void()> callback) {
  const auto call = std::make_shared<FailingCall>();
  const grpc::Slice slice("x");
  call->request = grpc::ByteBuffer(&slice, 1);
  stub.UnaryCall(&call->context, "/no/Method", grpc::StubOptions(), &call->request, &call->response,
                 [call, callback = std::move(callback)](const grpc::Status&) { callback(); });
}

}  // namespace

// The threads that wait in a callback.
class SinglePollingThread::Occupied {
 public:
  // In a callback: returns after Release().
  void Wait() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (!released_) changed_.Wait(lock);
    --waiting_;
    changed_.NotifyAll();
  }
  // In the callback of the thread that is left.
  void Pass() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    passed_ = true;
    changed_.NotifyAll();
  }

  bool AwaitWaiting(int threads, absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(patience);
    MutexLock lock(mutex_);
    while (waiting_ < threads && changed_.WaitUntil(lock, deadline)) {
    }
    return waiting_ >= threads;
  }
  bool AwaitPass(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(patience);
    MutexLock lock(mutex_);
    while (!passed_ && changed_.WaitUntil(lock, deadline)) {
    }
    return passed_;
  }

  // Returns when none waits. Callbacks that have not begun return at once when they do.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
    while (waiting_ > 0) changed_.Wait(lock);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool passed_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<SinglePollingThread> SinglePollingThread::Share(absl::Duration patience) {
  static Mutex& mutex = *new Mutex;
  static std::weak_ptr<SinglePollingThread>& shared = *new std::weak_ptr<SinglePollingThread>;
  MutexLock lock(mutex);
  if (std::shared_ptr<SinglePollingThread> existing = shared.lock()) return existing;
  // Private constructor.
  std::shared_ptr<SinglePollingThread> made(new SinglePollingThread());
  if (!made->Occupy(patience)) return nullptr;
  shared = made;
  return made;
}

int SinglePollingThread::ThreadsOf(unsigned int cores) {
  return static_cast<int>(std::clamp(cores / 2, kMinThreads, kMaxThreads));
}

SinglePollingThread::SinglePollingThread()
    // A channel without credentials is one whose calls all fail at once.
    : channel_(grpc::CreateChannel("", std::shared_ptr<grpc::ChannelCredentials>())),
      stub_(channel_),
      occupied_(std::make_shared<Occupied>()) {}

SinglePollingThread::~SinglePollingThread() { occupied_->Release(); }

bool SinglePollingThread::Occupy(absl::Duration patience) {
  const int others = ThreadsOf(gpr_cpu_num_cores()) - 1;
  for (int i = 0; i < others; ++i) {
    RunOnGrpcThread(stub_, [occupied = occupied_] { occupied->Wait(); });
  }
  if (!occupied_->AwaitWaiting(others, patience)) return false;
  // A version of gRPC with fewer threads has none left.
  RunOnGrpcThread(stub_, [occupied = occupied_] { occupied->Pass(); });
  return occupied_->AwaitPass(patience);
}

}  // namespace idempotency::internal
