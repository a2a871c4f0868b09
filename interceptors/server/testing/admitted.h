#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_ADMITTED_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_ADMITTED_H_

#include <future>
#include <memory>
#include <utility>
#include <variant>

#include "interceptors/server/admission/admission.h"
#include "interceptors/server/execution/settlement.h"

namespace idempotency::internal {

// The execution that was granted; nullptr if none was.
inline std::shared_ptr<LiveExecution> ExecutionOf(const Admission::Decision& decision) {
  const auto* const granted = std::get_if<Admission::Granted>(&decision);
  return granted == nullptr ? nullptr : granted->execution;
}

// Settles `execution` as after the answer `reply` of its handler, and waits for the outcome.
inline Settlement::Outcome SettleWith(std::shared_ptr<LiveExecution> execution, v1::Reply reply) {
  // Shared: set_value() may still use it when get() returns.
  const auto settled = std::make_shared<std::promise<Settlement::Outcome>>();
  Settlement::Settle(
      std::move(execution), std::move(reply),
      [settled](const Settlement::Outcome& outcome) { settled->set_value(outcome); });
  return settled->get_future().get();
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_ADMITTED_H_
