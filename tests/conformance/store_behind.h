#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_STORE_BEHIND_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_STORE_BEHIND_H_

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
#include "server/store/store.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {

// Between a service and its store: passes the parts of operations and answers for which the wire
// has no field.
//
// To the store: a record id that is not the key's own (collisions of the hash, which no caller can
// produce), and a window that is not the service's (a daemon has one). From the store: values that
// are only for counting; the service gets them too, and Tally() has the counts that it must reach.
//
// Thread-safe.
class StoreBehind final : public StoreDecorator {
 public:
  // The values in Reserved and Completion that are for counting.
  struct ReservedMarks {
    bool took_over = false;
    bool after_expiry = false;
    bool repeated = false;
  };
  struct CompletionMarks {
    bool lease_overrun = false;
    bool repeated = false;
  };
  struct Totals {
    std::size_t took_over = 0;
    std::size_t after_expiry = 0;
    std::size_t repeated = 0;
    // Repeated completions are not counted again.
    std::size_t lease_overruns = 0;
  };

  // `store` outlives this.
  explicit StoreBehind(Store& store) : StoreDecorator(store) {}

  // For later operations of this key that come from the service.
  void Announce(const RecordKey& key, const RecordId& id);
  void AnnounceWindow(const RecordKey& key, absl::Duration window);

  // From the last answer that contained this token. nullopt: the store gave none.
  std::optional<ReservedMarks> MarksOfGrant(const Uuid& token);
  std::optional<CompletionMarks> MarksOfCompletion(const Uuid& token);
  Totals Tally();

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;

 private:
  // The operations under the ids that were announced.
  template <typename Op>
  std::vector<Op> UnderTheirIds(absl::Span<const Op> ops) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  // By the key's own id.
  std::map<RecordId, RecordId> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<RecordId, absl::Duration> windows_ ABSL_GUARDED_BY(mutex_);
  // By reservation token.
  std::map<Uuid, ReservedMarks> grants_ ABSL_GUARDED_BY(mutex_);
  std::map<Uuid, CompletionMarks> completions_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_STORE_BEHIND_H_
