#include "ctl/interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace idempotency::internal {
namespace {

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void Interrupts::Hold() {
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Interrupts::Interrupts(std::function<void()> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "signals");
    Run();
  });
}

Interrupts::~Interrupts() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  // Ends the wait.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

bool Interrupts::interrupted() const {
  const MutexLock lock(mutex_);
  return interrupted_;
}

bool Interrupts::Pause(absl::Duration wait) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
  MutexLock lock(mutex_);
  while (!interrupted_ && changed_.WaitUntil(lock, until)) {
  }
  return !interrupted_;
}

void Interrupts::Run() {
  const sigset_t signals = EndingSignals();
  while (true) {
    int number = 0;
    if (sigwait(&signals, &number) != 0) continue;
    {
      const MutexLock lock(mutex_);
      if (ending_) return;
      if (interrupted_) _exit(128 + number);
      interrupted_ = true;
    }
    changed_.NotifyAll();
    on_interrupt_();
  }
}

}  // namespace idempotency::internal
