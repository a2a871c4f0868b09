#include "server/store_monitor.h"

#include <pthread.h>

#include <utility>

namespace idempotency {

StoreMonitor::StoreMonitor(Store& store, absl::Duration interval, OnInspected on_inspected)
    : store_(store), interval_(interval), on_inspected_(std::move(on_inspected)) {}

StoreMonitor::~StoreMonitor() { Stop(); }

void StoreMonitor::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "store-monitor");
    Run();
  });
}

void StoreMonitor::Stop() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void StoreMonitor::Run() {
  do {
    on_inspected_(store_.Inspect());
  } while (stop_.WaitFor(interval_));
}

}  // namespace idempotency
