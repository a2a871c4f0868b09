#ifndef IDEMPOTENCY_SERVER_STORE_FORWARDING_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_FORWARDING_STORE_H_

#include "absl/status/statusor.h"

#include "server/store/store.h"

namespace idempotency::internal {

// A store in front of another one, which does the maintenance. Thread-safe, as the other one is.
class ForwardingMaintenance : public Store {
 public:
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override { return behind_.Sweep(op); }
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override {
    return behind_.EndUnknown(op);
  }
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override {
    return behind_.MeasureUsage(op);
  }
  absl::StatusOr<StoreGauges> Inspect() override { return behind_.Inspect(); }

 protected:
  // `behind` outlives this.
  explicit ForwardingMaintenance(MaintenanceStore& behind) : behind_(behind) {}

 private:
  MaintenanceStore& behind_;
};

// The same, and the other one serves administrators too.
class ForwardingAdmin : public ForwardingMaintenance {
 public:
  absl::StatusOr<RecordPage> List(const ListOp& op) override { return behind_.List(op); }
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override { return behind_.Resolve(op); }
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override { return behind_.Purge(op); }
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override { return behind_.Reseal(op); }
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override { return behind_.ReadAudit(op); }

 protected:
  // `behind` outlives this.
  explicit ForwardingAdmin(Store& behind) : ForwardingMaintenance(behind), behind_(behind) {}

 private:
  AdminStore& behind_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_FORWARDING_STORE_H_
