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

#include "client/parent_operation.h"
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
  // `request` is what was asked, `grant` what was answered.
  LiveExecution(std::shared_ptr<const GuardedOperation> operation,
                const v1::ReserveRequest& reserve_request, const v1::ReserveResponse& grant,
                std::shared_ptr<Reservation> reservation);

  const GuardedOperation& operation() const { return *operation_; }
  const std::shared_ptr<const GuardedOperation>& shared_operation() const { return operation_; }
  const std::shared_ptr<Reservation>& reservation() const { return reservation_; }
  // What the reservation was asked for with: key, fingerprints, parent, labels.
  const v1::ReserveRequest& reserve_request() const { return reserve_request_; }
  const v1::Reserved& grant() const { return grant_; }
  // When the record is forgotten, as known at its reservation.
  absl::Time expires_at() const;
  bool no_effect() const { return no_effect_.load(std::memory_order_acquire); }
  // What the handler said that its reply refers to; nullopt if it did not.
  std::optional<v1::Reference> reference() const;
  // The type of its reply, told before it is settled where the operation itself
  // does not know.
  void RepliesWith(const google::protobuf::Descriptor& type);
  ReplyType reply_type() const;

  std::uint32_t attempt() const override { return grant_.attempt(); }
  const std::string& record_id() const override { return record_id_; }
  bool lost() const override { return reservation_->lost(); }
  const std::string& checkpoint() const override { return grant_.checkpoint(); }
  const std::map<std::string, std::string>& labels() const override { return labels_; }
  absl::Status Checkpoint(std::string_view progress) override;
  void Checkpoint(std::string progress, std::function<void(absl::Status)> done) override;
  // What this execution is known to have committed; nullopt if it has not, or if
  // only the ledger can say.
  std::optional<v1::Reply> committed() const;
  // RecordInTransaction was called: there may be a row in the ledger.
  bool ledger_row_begun() const { return ledger_row_begun_.load(std::memory_order_acquire); }
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

  const std::shared_ptr<const GuardedOperation> operation_;
  const v1::ReserveRequest reserve_request_;
  const v1::Reserved grant_;
  const std::string record_id_;
  const std::map<std::string, std::string> labels_;
  const std::shared_ptr<Reservation> reservation_;
  std::atomic<bool> no_effect_{false};
  std::atomic<bool> ledger_row_begun_{false};
  mutable Mutex mutex_;
  std::optional<v1::Reference> reference_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::Reply> committed_ ABSL_GUARDED_BY(mutex_);
  // Made when it is first asked for: most handlers call nobody.
  mutable std::once_flag parent_made_;
  mutable std::shared_ptr<ParentOperation> parent_;
  ReplyType reply_type_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LIVE_EXECUTION_H_
