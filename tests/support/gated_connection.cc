#include "tests/support/gated_connection.h"

#include <chrono>
#include <utility>
#include <variant>

#include "client/testing/function_connection.h"

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

void ConnectionGate::Pass(const std::shared_ptr<Connection>& inner, AnyConnectionCall call,
                          Connection::Deadline deadline) {
  using Reserving = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
  using Completing = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;
  if (auto* const reserve = std::get_if<Reserving>(&call)) {
    Run(true, [inner, request = reserve->request, deadline, done = std::move(reserve->done)] {
      inner->Reserve(request, deadline, done);
    });
  } else if (auto* const complete = std::get_if<Completing>(&call)) {
    const absl::Status failure = complete_failure();
    if (!failure.ok()) return complete->done(failure);
    Run(false, [inner, request = complete->request, deadline, done = std::move(complete->done)] {
      inner->Complete(request, deadline, done);
    });
  } else {
    inner->Send(std::move(call), deadline);
  }
}

std::unique_ptr<Connection> MakeGatedConnection(std::unique_ptr<Connection> inner,
                                                std::shared_ptr<ConnectionGate> gate) {
  return std::make_unique<FunctionConnection>(
      [inner = std::shared_ptr<Connection>(std::move(inner)), gate = std::move(gate)](
          AnyConnectionCall call, Connection::Deadline deadline) {
        gate->Pass(inner, std::move(call), deadline);
      });
}

}  // namespace idempotency::internal::testing
