#include "tests/support/health_watch.h"

#include <pthread.h>

namespace idempotency::internal::testing {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthWatch::HealthWatch(const std::string& address)
    : stub_(Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
      thread_([this] {
        pthread_setname_np(pthread_self(), "health-watch");
        Listen();
      }) {}

HealthWatch::~HealthWatch() {
  context_.TryCancel();
  thread_.join();
}

void HealthWatch::Listen() {
  const auto reader = stub_->Watch(&context_, HealthCheckRequest());
  HealthCheckResponse response;
  while (reader->Read(&response)) {
    MutexLock lock(mutex_);
    last_ = response.status();
    changed_.NotifyAll();
  }
  reader->Finish();
}

bool HealthWatch::AwaitServing(bool serving, std::chrono::seconds limit) {
  const auto wanted = serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  MutexLock lock(mutex_);
  while (last_ != wanted) {
    if (!changed_.WaitUntil(lock, deadline) && last_ != wanted) return false;
  }
  return true;
}

}  // namespace idempotency::internal::testing
