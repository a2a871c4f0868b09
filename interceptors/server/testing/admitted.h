#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_ADMITTED_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_ADMITTED_H_

#include <memory>
#include <utility>
#include <variant>

#include "interceptors/server/admission/admission.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/threads/awaited.h"

namespace idempotency::internal {

// The execution that was granted; nullptr if none was.
inline std::shared_ptr<LiveExecution> ExecutionOf(const Admission::Decision& decision) {
  const auto* const granted = std::get_if<Admission::Granted>(&decision);
  return granted == nullptr ? nullptr : granted->execution;
}

// Settles `execution` as after the answer `reply` of its handler, and waits for the outcome.
inline Settlement::Outcome SettleWith(std::shared_ptr<LiveExecution> execution, v1::Reply reply) {
  return Await<Settlement::Outcome>([&](Settlement::Done done) {
    Settlement::Settle(std::move(execution), std::make_unique<v1::Reply>(std::move(reply)),
                       std::move(done));
  });
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_ADMITTED_H_
