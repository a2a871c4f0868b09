#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_GUARD_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_GUARD_H_

#include <memory>

#include "grpc_idempotency/client/connection.h"
#include "interceptors/ext_proc/service/guarded_exchange.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {

// Performs the tasks of exchanges with the guard's own admission and settlement. Thread-safe.
class ExchangeGuard {
 public:
  ExchangeGuard(std::unique_ptr<Connection> connection, const GuardOptions& options,
                std::shared_ptr<GuardLog> log);
  // Close(), then waits for outstanding recordings (GuardOptions::closing_timeout at most).
  ~ExchangeGuard();
  ExchangeGuard(const ExchangeGuard&) = delete;
  ExchangeGuard& operator=(const ExchangeGuard&) = delete;

  // `done` of each is called once, on any thread, possibly inside the call; it must not block.
  void Perform(const std::shared_ptr<const ProcessorSettings>& settings,
               GuardedExchange::Admit admit, Admission::Done done);
  static void Perform(GuardedExchange::Settle settle, Settlement::Done done);
  static void Perform(GuardedExchange::ReleaseWithoutEffect release, Settlement::Done done);

  // Fails requests that wait for a decision and refuses new ones, with STORE_UNAVAILABLE.
  // Recordings go on.
  void Close() { reservations_.Close(); }

 private:
  const std::shared_ptr<GuardLog> log_;
  WorkerPools pools_;
  ReservationClient reservations_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_GUARD_H_
