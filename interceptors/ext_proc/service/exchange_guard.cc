#include "interceptors/ext_proc/service/exchange_guard.h"

#include <memory>
#include <utility>

#include "grpc_idempotency/deadline.h"

namespace idempotency::internal {
namespace {

// The settings outlive the operations that refer to them.
struct OperationWithSettings {
  std::shared_ptr<const ProcessorSettings> settings;
  GuardedOperation operation;
};

}  // namespace

ExchangeGuard::ExchangeGuard(std::unique_ptr<Connection> connection, const GuardOptions& options,
                             std::shared_ptr<GuardLog> log)
    : log_(std::move(log)),
      reservations_(std::move(connection), options.recording_timeout, options.closing_timeout,
                    /*replays=*/nullptr, std::make_unique<TimerThread>(), ReserveLimits(), log_) {}

ExchangeGuard::~ExchangeGuard() {
  Close();
  pools_.Stop();
}

void ExchangeGuard::Perform(const std::shared_ptr<const ProcessorSettings>& settings,
                            GuardedExchange::Admit admit, Admission::Done done) {
  GuardedOperation operation{std::move(admit.route.operation), std::move(admit.route.policy),
                             settings->guard, reservations_, pools_};
  operation.on_unknown = admit.route.on_unknown;
  operation.reply_type = admit.route.reply_type;
  // One log for all: callers determine the number of operations.
  operation.log = log_;
  const Scheduler::Time deadline =
      VerdictDeadline(operation, After(reservations_.Now(), admit.timeout));
  auto held = std::make_shared<const OperationWithSettings>(
      OperationWithSettings{settings, std::move(operation)});
  const GuardedOperation* const shared = &held->operation;
  Admission::Admit(std::shared_ptr<const GuardedOperation>(held, shared), std::move(admit.request),
                   deadline, std::move(done));
}

void ExchangeGuard::Perform(GuardedExchange::Settle settle, Settlement::Done done) {
  Settlement::Settle(std::move(settle.execution),
                     std::make_unique<v1::Reply>(std::move(settle.reply)), std::move(done),
                     std::move(settle.reason));
}

void ExchangeGuard::Perform(GuardedExchange::ReleaseWithoutEffect release, Settlement::Done done) {
  Settlement::ReleaseWithoutEffect(std::move(release.execution), std::move(release.reason),
                                   std::move(done));
}

}  // namespace idempotency::internal
