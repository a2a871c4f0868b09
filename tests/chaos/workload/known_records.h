#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_KNOWN_RECORDS_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_KNOWN_RECORDS_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/mutex.h"
#include "core/record_key.h"

namespace idempotency::testing {

// The records that a client process touched, and whether it knows them to be
// completed. Thread-safe.
class KnownRecords {
 public:
  struct Record {
    RecordKey key;
    bool raw = false;
    // Of a raw record: nothing runs again without `recover`.
    bool recovery = false;
    bool completed = false;
  };

  void Touch(const Record& record) {
    MutexLock lock(mutex_);
    auto& known = records_[std::tie(record.key.key, record.key.operation, record.key.scope,
                                    record.key.name_space)];
    const bool completed = known.completed || record.completed;
    known = record;
    known.completed = completed;
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
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_KNOWN_RECORDS_H_
