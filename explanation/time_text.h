#ifndef IDEMPOTENCY_EXPLANATION_TIME_TEXT_H_
#define IDEMPOTENCY_EXPLANATION_TIME_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"

namespace idempotency::internal {

// Times as printable text. Thread-safe.

// "3m" for some time, rounded down to its largest unit; "0s" at least.
std::string SpanText(absl::Duration span);
// "2026-11-24T10:00:00Z (3m ago)", or "(in 3m)".
std::string TimeText(const google::protobuf::Timestamp& time, absl::Time now);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_EXPLANATION_TIME_TEXT_H_
