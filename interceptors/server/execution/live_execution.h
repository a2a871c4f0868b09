#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LIVE_EXECUTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LIVE_EXECUTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "client/downstream/parent_operation.h"
#include "core/mutex.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/reservation/reservation.h"

namespace idempotency::internal {

// One execution under a reservation, from its grant until its outcome is
// settled. Thread-safe.
class LiveExecution final : public Execution {
 public:
  LiveExecution(std::shared_ptr<const GuardedOperation> operation,
                std::shared_ptr<Reservation> reservation);

  const GuardedOperation& operation() const { return *operation_; }
  const std::shared_ptr<const GuardedOperation>& shared_operation() const { return operation_; }
  const std::shared_ptr<Reservation>& reservation() const { return reservation_; }
  // The request for the reservation: key, fingerprints, parent, labels.
  const v1::ReserveRequest& reserve_request() const { return reservation_->request(); }
  const v1::Reserved& reserved() const { return reservation_->answer().reserved(); }
  // When the record expires, as known at its reservation.
  absl::Time expires_at() const;
  bool no_effect() const { return no_effect_.load(std::memory_order_acquire); }
  // The reference that the handler set for its reply; nullopt if it set none.
  std::optional<v1::Reference> reference() const;
  // Sets the type of its reply, before it is settled, if the operation itself does not have it.
  void RepliesWith(const google::protobuf::Descriptor& type);
  ReplyType reply_type() const;

  std::uint32_t attempt() const override { return reserved().attempt(); }
  bool certainly_first() const override { return attempt() == 1 && !reserve_request().relaxed(); }
  // A crash of the store may remove the record: another attempt 1 may have run, or be running.
  bool MayBeLost() const { return attempt() == 1 && reserve_request().relaxed(); }
  const std::string& record_id() const override { return reservation_->answer().record_id(); }
  bool lost() const override { return reservation_->lost(); }
  const std::string& checkpoint() const override { return reserved().checkpoint(); }
  const std::map<std::string, std::string>& labels() const override { return labels_; }
  absl::Status Checkpoint(std::string_view progress) override;
  void Checkpoint(std::string progress, std::function<void(absl::Status)> done) override;
  // The reply that this execution is known to have committed; nullopt if it has not committed,
  // or if only the ledger can show it.
  std::optional<v1::Reply> committed() const;
  // RecordInTransaction was called: the ledger may have a row.
  bool ledger_row_begun() const { return ledger_row_begun_.load(std::memory_order_acquire); }
  // Removes the reference from the reply of a ledger's row. It becomes the execution's own, as if
  // its handler had set it.
  void AdoptRowReference(v1::Reply& reply);
  // A commit of this execution may still succeed.
  bool commit_in_doubt() const { return commit_in_doubt_.load(std::memory_order_acquire); }
  void MarkCommitInDoubt() override { commit_in_doubt_.store(true, std::memory_order_release); }
  void MarkNoEffect() override { no_effect_.store(true, std::memory_order_release); }
  absl::StatusOr<std::string> DownstreamKey(std::string_view label) const override;
  absl::Status Attach(grpc::ClientContext& context, std::string_view label) override;
  absl::Status Attach(grpc::ClientContext& context) override;
  void SetReference(std::string_view type, std::string_view id) override;

 protected:
  absl::StatusOr<LedgerRow> NewLedgerRow(const RecordedReply& reply) override;
  LedgerCommitPermit MayCommit() const override;
  void NoteCommitted(const RecordedReply& reply) override;

 private:
  ParentOperation& AsParent() const;
  // With the reference that was set before, if the policy keeps references.
  v1::Reply ReplyOfRow(const RecordedReply& reply) const;

  const std::shared_ptr<const GuardedOperation> operation_;
  const std::shared_ptr<Reservation> reservation_;
  const std::map<std::string, std::string> labels_;
  std::atomic<bool> no_effect_{false};
  std::atomic<bool> ledger_row_begun_{false};
  std::atomic<bool> commit_in_doubt_{false};
  mutable Mutex mutex_;
  std::optional<v1::Reference> reference_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::Reply> committed_ ABSL_GUARDED_BY(mutex_);
  // Created at its first use: most handlers make no calls.
  mutable std::once_flag parent_made_;
  mutable std::shared_ptr<ParentOperation> parent_;
  ReplyType reply_type_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LIVE_EXECUTION_H_
