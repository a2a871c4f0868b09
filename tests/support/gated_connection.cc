#include "tests/support/gated_connection.h"

#include <chrono>

namespace idempotency::internal::testing {

void ConnectionGate::HoldReserves() {
  MutexLock lock(mutex_);
  hold_reserves_ = true;
}

void ConnectionGate::HoldCompletes() {
  MutexLock lock(mutex_);
  hold_completes_ = true;
}

void ConnectionGate::OpenAll() {
  std::vector<std::function<void()>> held;
  {
    MutexLock lock(mutex_);
    hold_reserves_ = false;
    hold_completes_ = false;
    held.swap(held_);
  }
  for (const auto& send : held) send();
}

void ConnectionGate::FailCompletes(absl::Status status) {
  MutexLock lock(mutex_);
  complete_failure_ = std::move(status);
}

bool ConnectionGate::AwaitHeld(std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  MutexLock lock(mutex_);
  while (held_.size() < count) {
    if (!changed_.WaitUntil(lock, deadline) && held_.size() < count) return false;
  }
  return true;
}

void ConnectionGate::Run(bool reserve, std::function<void()> send) {
  {
    MutexLock lock(mutex_);
    if (reserve ? hold_reserves_ : hold_completes_) {
      held_.push_back(std::move(send));
      changed_.NotifyAll();
      return;
    }
  }
  send();
}

absl::Status ConnectionGate::complete_failure() {
  MutexLock lock(mutex_);
  return complete_failure_;
}

void GatedConnection::Reserve(const v1::ReserveRequest& request, Deadline deadline,
                              Callback<v1::ReserveResponse> done) {
  gate_->Run(true, [this, request, deadline, done = std::move(done)] {
    inner_->Reserve(request, deadline, done);
  });
}

void GatedConnection::Complete(const v1::CompleteRequest& request, Deadline deadline,
                               Callback<v1::CompleteResponse> done) {
  const absl::Status failure = gate_->complete_failure();
  if (!failure.ok()) {
    done(failure);
    return;
  }
  gate_->Run(false, [this, request, deadline, done = std::move(done)] {
    inner_->Complete(request, deadline, done);
  });
}

void GatedConnection::Release(const v1::ReleaseRequest& request, Deadline deadline,
                              Callback<v1::ReleaseResponse> done) {
  inner_->Release(request, deadline, std::move(done));
}

void GatedConnection::Extend(const v1::ExtendRequest& request, Deadline deadline,
                             Callback<v1::ExtendResponse> done) {
  inner_->Extend(request, deadline, std::move(done));
}

void GatedConnection::Get(const v1::GetRequest& request, Deadline deadline,
                          Callback<v1::GetResponse> done) {
  inner_->Get(request, deadline, std::move(done));
}

}  // namespace idempotency::internal::testing
