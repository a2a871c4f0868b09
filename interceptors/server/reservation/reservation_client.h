#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVATION_CLIENT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVATION_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/connection/closable_connection.h"
#include "interceptors/server/connection/replay_cache.h"
#include "interceptors/server/reservation/reservation.h"
#include "interceptors/server/reservation/reserve_call.h"
#include "interceptors/server/reservation/store_context.h"
#include "interceptors/server/reservation/store_probe.h"
#include "interceptors/server/threads/timer_thread.h"

namespace idempotency::internal {

// STORE_UNAVAILABLE, for requests after Close().
absl::Status Closed();

// Requests, holds and records all reservations of one guard. Independent of gRPC servers.
// Thread-safe.
class ReservationClient {
 public:
  // `recording_timeout` is the caller_timeout of reservations; `closing_timeout` is how long
  // the destructor waits for outstanding recordings. `replays` may be nullptr.
  ReservationClient(std::unique_ptr<Connection> connection, absl::Duration recording_timeout,
                    absl::Duration closing_timeout, std::shared_ptr<ReplayCache> replays = nullptr,
                    std::unique_ptr<Scheduler> scheduler = std::make_unique<TimerThread>(),
                    const ReserveLimits& limits = {},
                    std::shared_ptr<GuardLog> log = GuardLog::Default());
  // Close(); waits until everything is recorded, released or known to be lost, closing_timeout
  // at most (for requests without an answer 2 s); then stops. A reply that was not recorded by
  // then is lost, and its operation runs again after the lease (or becomes UNKNOWN).
  ~ReservationClient();
  ReservationClient(const ReservationClient&) = delete;
  ReservationClient& operator=(const ReservationClient&) = delete;

  // The replay that the store would answer, from the cache; nullptr if the store must be queried,
  // and after Close(). Only the record key and the fingerprints of `request` are read.
  ReplayCache::Answer FindReplay(const v1::ReserveRequest& request);

  // As ReserveCall; STORE_UNAVAILABLE at once after Close(), and `in_flight` at once if too
  // many requests for the same record are open already (ReserveLimits).
  void Request(std::shared_ptr<const v1::ReserveRequest> request, absl::Duration max_wait,
               Scheduler::Time deadline, ReserveCall::Done done, AbandonedGrant abandoned = {});

  // Takes over a granted reservation and starts its heartbeats.
  std::shared_ptr<Reservation> Hold(Reservation::Grant grant);

  // Repeats a read until the service answers: see StoreProbe.
  void Probe(const std::string& name_space, Scheduler::Time deadline, StoreProbe::Done done);

  // Reads whether the record exists. `done` gets OK, RECORD_NOT_FOUND, or the failure; called
  // once, by `deadline`, on any thread.
  void Find(const v1::RecordKey& key, Scheduler::Time deadline,
            std::function<void(const absl::Status&)> done);

  // Fails requests that wait and refuses new ones. Recordings go on. Safe to
  // call twice.
  void Close();

  // ReserveLimits::replies_ahead.
  const Places& replies_ahead() const { return replies_ahead_; }

  bool closed();
  // Its tasks are dropped when this is destroyed.
  Scheduler& scheduler() { return *scheduler_; }
  Scheduler::Time Now() const { return scheduler_->Now(); }

 private:
  using RequestId = std::uint64_t;

  // A request with a waiting caller.
  struct SentReserve {
    std::shared_ptr<ReserveCall> request;
    std::size_t key = 0;
    // It lets the daemon wait for a running attempt.
    bool waits = false;
  };

  // Counts one more request; nullptr, and nothing is counted, if its key is at its limit.
  std::shared_ptr<ReserveCall> Admit(const std::shared_ptr<const v1::ReserveRequest>& request,
                                     absl::Duration max_wait, Scheduler::Time deadline,
                                     ReserveCall::Done& done, AbandonedGrant abandoned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(RequestId id);

  const ReserveLimits limits_;
  const absl::Duration recording_timeout_;
  const absl::Duration closing_timeout_;
  const std::unique_ptr<Scheduler> scheduler_;
  ClosableConnection connection_;
  const SharedStoreContext context_;
  const Places replies_ahead_;

  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  RequestId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order of the requests, which is the order of Close().
  absl::btree_map<RequestId, SentReserve> waiting_ ABSL_GUARDED_BY(mutex_);
  // The number of requests for each key, by its hash (two keys with one hash share one limit),
  // and the number of requests that wait for a running attempt.
  absl::flat_hash_map<std::size_t, std::size_t> of_key_ ABSL_GUARDED_BY(mutex_);
  std::size_t waits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_RESERVATION_CLIENT_H_
