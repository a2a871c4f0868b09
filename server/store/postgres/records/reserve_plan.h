#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_RESERVE_PLAN_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_RESERVE_PLAN_H_

#include <utility>
#include <vector>

#include "server/store/decision.h"

namespace idempotency::internal {

// The steps of one round of Reserve, by what they write. A step has a `decision`.
template <typename Step>
struct ReservePlan {
  std::vector<Step> insert;
  std::vector<Step> start_afresh;
  std::vector<Step> grant;
  std::vector<Step> renew_lease;
  std::vector<Step> mark_unknown;

  // Adds a step that writes something.
  void Add(Step step) {
    switch (step.decision.action) {
      case ReserveAction::kAnswer:
        return;
      case ReserveAction::kInsert:
        insert.push_back(std::move(step));
        return;
      case ReserveAction::kStartAfresh:
        start_afresh.push_back(std::move(step));
        return;
      case ReserveAction::kGrant:
      case ReserveAction::kGrantRecovery:
        grant.push_back(std::move(step));
        return;
      case ReserveAction::kRenewLease:
        renew_lease.push_back(std::move(step));
        return;
      case ReserveAction::kMarkUnknown:
        mark_unknown.push_back(std::move(step));
        return;
    }
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_RESERVE_PLAN_H_
