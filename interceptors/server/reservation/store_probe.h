#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_PROBE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_PROBE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "core/backoff.h"
#include "core/mutex.h"
#include "core/pass_key.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/reservation/store_context.h"

namespace idempotency::internal {

// Repeats a read until the service answers it. The record does not exist; the read needs a
// connection, access to the namespace, and the store. Changes nothing. Thread-safe; keeps
// itself alive until `done` was called.
class StoreProbe final : public std::enable_shared_from_this<StoreProbe> {
 public:
  using Time = Scheduler::Time;
  //   OK           the service has read its store for this guard
  //   the last failure (STORE_UNAVAILABLE if there was none)   not by `deadline`
  //   any other    the service refuses the guard; returned at once, since a repeat would not
  //                change it
  // Called once, on any thread, possibly inside Run; must not block.
  using Done = std::function<void(const absl::Status&)>;

  static void Run(SharedStoreContext context, const std::string& name_space, Time deadline,
                  Done done);

  // For Run() alone.
  StoreProbe(PassKey<StoreProbe> key, SharedStoreContext context, const std::string& name_space,
             Time deadline, Done done);

 private:
  void Start();
  void Try();
  void OnAnswer(const absl::Status& answer);
  void Finish(const absl::Status& status);

  const SharedStoreContext context_;
  const Time deadline_;
  v1::GetRequest request_;

  Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  Scheduler::TaskId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
  // Empty once it was called.
  Done done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_STORE_PROBE_H_
