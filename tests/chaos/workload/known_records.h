#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_KNOWN_RECORDS_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_KNOWN_RECORDS_H_

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal::testing {

// The records that a client process touched, and whether it has their final state. Thread-safe.
class KnownRecords {
 public:
  struct Record {
    RecordKey key;
    bool raw = false;
    // For a raw record: nothing runs again without `recover`.
    bool recovery = false;
    // Completed, or never to be: no further request is needed.
    bool settled = false;
  };

  void Touch(const Record& record) {
    MutexLock lock(mutex_);
    const auto [entry, added] = records_.try_emplace(
        {record.key.key, record.key.operation, record.key.scope, record.key.name_space}, record);
    if (added) by_age_.push_back({std::chrono::steady_clock::now(), &entry->second});
    entry->second.raw = record.raw;
    entry->second.recovery = record.recovery;
    entry->second.settled |= record.settled;
  }
  // A record that was touched first before `time` and has not settled; each is returned once.
  std::optional<Record> TakeOlderThan(std::chrono::steady_clock::time_point time) {
    MutexLock lock(mutex_);
    while (!by_age_.empty() && by_age_.front().first < time) {
      const Record& record = *by_age_.front().second;
      by_age_.pop_front();
      if (!record.settled) return record;
    }
    return std::nullopt;
  }
  std::vector<Record> All() const {
    MutexLock lock(mutex_);
    std::vector<Record> all;
    for (const auto& [name, record] : records_) all.push_back(record);
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Record> records_
      ABSL_GUARDED_BY(mutex_);
  // The time at which each record was touched first.
  std::deque<std::pair<std::chrono::steady_clock::time_point, const Record*>> by_age_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_KNOWN_RECORDS_H_
