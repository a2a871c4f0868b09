#ifndef IDEMPOTENCY_BENCH_STOP_SIGNALS_H_
#define IDEMPOTENCY_BENCH_STOP_SIGNALS_H_

#include <signal.h>

namespace idempotency::internal::bench {

// SIGINT and SIGTERM, which only sigwait() receives from here on. Before gRPC makes its threads.
inline sigset_t BlockStopSignals() {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  return stop_signals;
}

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_STOP_SIGNALS_H_
