#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_BACKGROUND_RECOVERY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_BACKGROUND_RECOVERY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "core/backoff.h"
#include "core/mutex.h"
#include "core/pass_key.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/admission/admission.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency::internal {

// Recovers the outcomes that this guard left unknown, in the background, so that an operation
// does not stay UNKNOWN until its client calls again.
//
// It handles only records of this process: those whose outcome its own executions and
// recoveries left unknown. Unknown outcomes of other processes, or of this one before a
// restart, wait for the next call with their key.
//
// It tries each record again with growing pauses, until the record is settled by any process,
// or its retention has passed. A record that no longer exists, for example because an
// administrator purged it, is dropped: a reservation would create it again. Without permission
// to read it is reserved all the same. Thread-safe.
class BackgroundRecovery : public UnknownOutcomeSink,
                           public std::enable_shared_from_this<BackgroundRecovery> {
 public:
  // The pause before the first try, and the longest pause between two.
  static constexpr absl::Duration kFirstPause = absl::Seconds(1);
  static constexpr absl::Duration kLongestPause = absl::Minutes(5);

  // Keeps `limit` records at most and tries `at_once` of them concurrently: half of the threads
  // for recovery, so that recoveries for calls do not wait for these. `scheduler` outlives
  // every task that was started.
  static std::shared_ptr<BackgroundRecovery> Make(Scheduler& scheduler, std::size_t limit,
                                                  std::size_t at_once);

  // Does nothing for an operation without a recovery handler, and after Stop(); a record over the
  // limit is dropped with a warning. A record that it already has is tried once more, if it is
  // being tried now.
  void Add(std::shared_ptr<const GuardedOperation> operation,
           const v1::ReserveRequest& reserve_request) override;

  // Drops all records; a try that has started is settled.
  void Stop();

  // The number of kept records.
  std::size_t size();

  // For Make() alone.
  BackgroundRecovery(PassKey<BackgroundRecovery> key, Scheduler& scheduler, std::size_t limit,
                     std::size_t at_once);

 private:
  struct Candidate {
    std::shared_ptr<const GuardedOperation> operation;
    v1::ReserveRequest reserve_request;
    Scheduler::Time give_up;
    Backoff backoff{kFirstPause, kLongestPause};
    // Since its last try began: another attempt may have left the record open meanwhile.
    bool added_again = false;
  };

  // After the record's next pause.
  void TryLater(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TryAt(Scheduler::Time when, const std::string& name);
  void Try(const std::string& name);
  void OnFound(const std::string& name, std::shared_ptr<const GuardedOperation> operation,
               v1::ReserveRequest reserve_request, const absl::Status& found);
  void OnDecision(const std::string& name, const Admission::Decision& decision);
  // It is tried again later if the record is still open.
  void EndTry(const std::string& name, bool is_open);

  Scheduler& scheduler_;
  const std::size_t limit_;
  const std::size_t at_once_;

  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t trying_ ABSL_GUARDED_BY(mutex_) = 0;
  // By record key.
  absl::flat_hash_map<std::string, Candidate> candidates_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_BACKGROUND_RECOVERY_H_
