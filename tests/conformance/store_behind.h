#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_STORE_BEHIND_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_STORE_BEHIND_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
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
class StoreBehind final : public StoreDecorator<StoreBehind> {
 public:
  // The values in Reserved, OutcomeUnknown and Completion that are for counting.
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
    std::size_t marked_unknown = 0;
    // Repeated completions are not counted again.
    std::size_t lease_overruns = 0;
  };

  // `store` outlives this.
  explicit StoreBehind(Store& store) : StoreDecorator(store) {}

  // For later operations of this key that come from the service.
  void Announce(const RecordKey& key, const RecordId& id);
  void AnnounceWindow(const RecordKey& key, absl::Duration window);
  void AnnounceOnlyExisting(const RecordKey& key, bool only_existing);

  // From the last answer that contained this token. nullopt: the store gave none.
  std::optional<ReservedMarks> MarksOfGrant(const Uuid& token);
  std::optional<CompletionMarks> MarksOfCompletion(const Uuid& token);
  // Whether the last reservation of this id marked the record UNKNOWN.
  bool MarkedUnknown(const RecordId& id);
  Totals Tally();

 private:
  friend class StoreDecorator<StoreBehind>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind kind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops);
  template <typename Map>
  static std::optional<typename Map::mapped_type> Find(const Map& map, const Uuid& key) {
    const auto it = map.find(key);
    if (it == map.end()) return std::nullopt;
    return it->second;
  }
  // The operation under the id that was announced, and in its window.
  template <typename Op>
  void Translate(Op& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps what is for counting.
  template <typename Op, typename Answer>
  void Note(const Op&, const Answer&) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  void Note(const ReserveOp& op, const absl::StatusOr<Verdict>& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const CompleteOp& op, const absl::StatusOr<Completion>& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const ReleaseOp& op, const absl::Status& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  // By the key's own id.
  std::map<RecordId, RecordId> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<RecordId, absl::Duration> windows_ ABSL_GUARDED_BY(mutex_);
  std::set<RecordId> only_existing_ ABSL_GUARDED_BY(mutex_);
  // By reservation token.
  std::map<Uuid, ReservedMarks> grants_ ABSL_GUARDED_BY(mutex_);
  std::map<Uuid, CompletionMarks> completions_ ABSL_GUARDED_BY(mutex_);
  // Ids of the service.
  std::set<RecordId> marked_unknown_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

template <typename Op, typename Answer>
std::vector<Answer> StoreBehind::Around(OperationKind /*kind*/, StoreMethod<Op, Answer> method,
                                        absl::Span<const Op> ops) {
  std::vector<Op> changed(ops.begin(), ops.end());
  {
    MutexLock lock(mutex_);
    for (Op& op : changed) Translate(op);
  }
  std::vector<Answer> answers = (store().*method)(changed);
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < ops.size(); ++i) Note(ops[i], answers[i]);
  return answers;
}

template <typename Op>
void StoreBehind::Translate(Op& op) {
  if constexpr (std::is_same_v<Op, ReserveOp>) {
    if (const auto window = Find(windows_, op.id)) op.window = *window;
    op.only_existing = only_existing_.count(op.id) > 0;
  }
  if (const auto id = Find(ids_, op.id)) op.id = *id;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_STORE_BEHIND_H_
