#include "server/service/health.h"

#include <utility>

#include "server/observability/log.h"

namespace idempotency::internal {

Health::Health(std::vector<Port> ports) : ports_(std::move(ports)) {
  MutexLock lock(mutex_);
  Publish();
}

void Health::ReportStore(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (store_reported_ && status.ok() == store_answers_) return;
  store_reported_ = true;
  store_answers_ = status.ok();
  if (store_answers_) {
    Log(LogLevel::kInfo, "store answers");
  } else {
    Log(LogLevel::kWarn, "store does not answer", {{"error", status.message()}});
  }
  Publish();
}

void Health::Drain() {
  MutexLock lock(mutex_);
  draining_ = true;
  Publish();
}

void Health::Publish() {
  const bool serving = store_answers_ && !draining_;
  for (const Port& port : ports_) {
    // The health service has a name once it was set by that name.
    port.health->SetServingStatus("", serving);
    port.health->SetServingStatus(port.service, serving);
  }
}

}  // namespace idempotency::internal
