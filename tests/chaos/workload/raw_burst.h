#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_RAW_BURST_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_RAW_BURST_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "tests/chaos/workload/known_records.h"
#include "tests/chaos/workload/raw_client.h"

namespace idempotency::internal::testing {

// Some new records and the operations of one raw client on them: in each round an operation on
// every one, all at once, so that operations are sent together; some records get two or three at
// the same time. Stale and invented tokens, other requests and repeats are among them.
// Thread-compatible.
class RawBurst {
 public:
  RawBurst(RawClient& client, KnownRecords& known, std::mt19937_64& random);
  ~RawBurst();

  // One operation or more on each record; returns when all are answered. False if most of them
  // could not be reserved.
  bool Round();

  static constexpr int kRounds = 14;

 private:
  enum class State { kFree, kHeld, kCompleted, kUnknown };
  struct Record {
    KnownRecords::Record known;
    State state = State::kFree;
    std::string token;
    std::string request_token;
    std::string reply;
    // Tokens that hold no record any more.
    std::vector<std::string> stale;
  };

  RawOperation Draw(const Record& record);
  RawOperation DrawHeld(const Record& record);
  RawOperation DrawCompleted(const Record& record);
  RawOperation Reserve(const Record& record);
  RawOperation With(RawOperation::Kind kind, const Record& record, const std::string& token);
  void Send(Record& record, const RawOperation& operation);
  static void Apply(const RawOperation& operation, const RawAnswer& answer, Record& record);

  RawClient& client_;
  KnownRecords& known_;
  std::mt19937_64& random_;
  Mutex mutex_;
  CondVar answered_;
  std::vector<Record> records_;  // the state that answers change is read between rounds
  int outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
  int sent_ ABSL_GUARDED_BY(mutex_) = 0;
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_RAW_BURST_H_
