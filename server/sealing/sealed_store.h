#ifndef IDEMPOTENCY_SERVER_SEALING_SEALED_STORE_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALED_STORE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "server/sealing/key_ring_source.h"
#include "server/sealing/sealer.h"
#include "server/store/forwarding_store.h"

namespace idempotency::internal {

struct SealedStoreOptions {
  // Whether what was stored before sealing was switched on is read. Otherwise it is RECORD_DAMAGED:
  // for the time after the longest retention, since who can write rows can write unsealed ones.
  bool accept_unsealed = false;
  // When the keys begin to seal. Outlives the store.
  const Clock* clock = &Clock::System();
};

// Seals replies and checkpoints before they reach another store, and opens them in its answers;
// puts a key to fingerprints (docs/sealing.md, docs/adr/0039-sealed-replies.md). Keys, scopes,
// labels, release reasons and times stay readable.
//
// In addition to the other store's answers: DATA_LOSS / RECORD_DAMAGED, see Sealer. A reservation
// whose checkpoint cannot be opened was granted, but its token is not handed out: it ends with its
// lease.
//
// A record under a key that no longer seals, or under none, costs its retries a second call of the
// store. Holds the sealed form of one call's replies beside them: as many bytes again.
//
// Thread-safe.
class SealedStore final : public ForwardingMaintenance {
 public:
  // `store` outlives this.
  SealedStore(Store& store, std::shared_ptr<const KeyRingSource> rings,
              const SealedStoreOptions& options);
  SealedStore(std::unique_ptr<Store> store, std::shared_ptr<const KeyRingSource> rings,
              const SealedStoreOptions& options);

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  // The fingerprints in its answers are the stored ones.
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const override;
  absl::StatusOr<RecordPage> List(const ListOp& op) override;
  // A settlement that is repeated costs a read and a second call.
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override;
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override;
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override;
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override;
  std::unique_ptr<HeldConnection> Hold(std::function<void()> wanted) override;

 private:
  friend class SealedHeldConnection;

  using Indices = std::vector<std::size_t>;
  // The sealed operations of a call, those that could be sealed, and their places in it.
  struct SealedCompletions {
    std::vector<CompleteOp> ops;
    Indices indices;
  };

  // The latest time that this process has seen.
  absl::Time Now() const;
  Sealer NewSealer() const;

  static std::vector<ReserveOp> SealAll(const Sealer& sealer, absl::Span<const ReserveOp> ops);
  static SealedCompletions SealAll(const Sealer& sealer, absl::Span<const CompleteOp> ops,
                                   std::vector<absl::StatusOr<Completion>>& answers);

  // Makes the other store's answers to sealed reservations those of this one.
  void Finish(const Sealer& sealer, absl::Span<const ReserveOp> ops, std::vector<ReserveOp>& sealed,
              std::vector<absl::StatusOr<Verdict>>& answers);
  // Decides again, with every key, those that the first call could not compare.
  void ReserveUnderOthers(const Sealer& sealer, absl::Span<const ReserveOp> ops,
                          std::vector<ReserveOp>& sealed,
                          std::vector<absl::StatusOr<Verdict>>& answers);
  // Says what is wrong with the records that no key of the ring can compare.
  void Explain(const Sealer& sealer, absl::Span<const ReserveOp> ops,
               std::vector<absl::StatusOr<Verdict>>& answers);
  // Completes again, with every key, those that were completed before with another digest.
  void CompleteUnderOthers(const Sealer& sealer, absl::Span<const CompleteOp> ops,
                           SealedCompletions& sealed,
                           std::vector<absl::StatusOr<Completion>>& answers);
  static void OpenAll(const Sealer& sealer, absl::Span<const ReserveOp> ops,
                      std::vector<absl::StatusOr<Verdict>>& answers);

  const std::unique_ptr<Store> owned_;
  Store& store_;
  const std::shared_ptr<const KeyRingSource> rings_;
  const SealedStoreOptions options_;

  mutable Mutex mutex_;
  // A clock that steps back does not take a key out of use, which would store unsealed rows again.
  mutable absl::Time latest_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALED_STORE_H_
