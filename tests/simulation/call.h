#ifndef IDEMPOTENCY_TESTS_SIMULATION_CALL_H_
#define IDEMPOTENCY_TESTS_SIMULATION_CALL_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency::internal::simulation {

// One operation of a caller, under its key. A value type.
struct Call {
  enum class Policy {
    kTakeOver,  // may run again after its lease
    kWait,      // the same, and duplicates wait for the first
    kRecover,   // a recovery handler settles an open outcome
    kUnknown,   // an open outcome stays open
  };

  Policy policy = Policy::kTakeOver;
  std::string key;
  std::string request;

  RecordKey record_key() const { return {"sim", "everybody", operation(), NormaliseKey(key)}; }
  std::string operation() const {
    switch (policy) {
      case Policy::kTakeOver:
        return "take-over";
      case Policy::kWait:
        return "wait";
      case Policy::kRecover:
        return "recover";
      case Policy::kUnknown:
        break;
    }
    return "unknown";
  }
};

// The caller's answer: a reply (its status may be a failure that is recorded), or the reason why
// there is none.
struct Answer {
  std::optional<v1::Reply> reply;
  bool replayed = false;
  absl::Status error;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_CALL_H_
