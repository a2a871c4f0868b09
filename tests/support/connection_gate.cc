#include "tests/support/connection_gate.h"

#include <chrono>
#include <utility>
#include <variant>

namespace idempotency::internal::testing {
namespace {

using Reserving = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
using Completing = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;

}  // namespace

void ConnectionGate::HoldReserves() {
  MutexLock lock(mutex_);
  hold_reserves_ = true;
}

void ConnectionGate::HoldCompletes() {
  MutexLock lock(mutex_);
  hold_completes_ = true;
}

void ConnectionGate::OpenAll() {
  std::vector<ConnectionDecorator::Pass> held;
  {
    MutexLock lock(mutex_);
    hold_reserves_ = false;
    hold_completes_ = false;
    held.swap(held_);
  }
  for (const auto& pass : held) pass(absl::OkStatus());
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

void ConnectionGate::Receive(const AnyConnectionCall& call, ConnectionDecorator::Pass pass) {
  const bool reserve = std::holds_alternative<Reserving>(call);
  const bool complete = std::holds_alternative<Completing>(call);
  absl::Status failure;
  {
    MutexLock lock(mutex_);
    if (complete) failure = complete_failure_;
    if (failure.ok() && ((reserve && hold_reserves_) || (complete && hold_completes_))) {
      held_.push_back(std::move(pass));
      changed_.NotifyAll();
      return;
    }
  }
  pass(failure);
}

std::unique_ptr<Connection> Gated(std::unique_ptr<Connection> inner,
                                  std::shared_ptr<ConnectionGate> gate) {
  ConnectionDecorator::Hooks hooks;
  hooks.before_sending = [gate = std::move(gate)](const AnyConnectionCall& call,
                                                  ConnectionDecorator::Pass pass) {
    gate->Receive(call, std::move(pass));
  };
  return std::make_unique<ConnectionDecorator>(std::move(inner), std::move(hooks));
}

}  // namespace idempotency::internal::testing
