#ifndef IDEMPOTENCY_EXPLANATION_RECORD_STORY_H_
#define IDEMPOTENCY_EXPLANATION_RECORD_STORY_H_

#include <string>

#include "absl/time/time.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The meaning of a record's state at a time, by the decisions of `Reserve`, as printable text of
// whole sentences. Thread-safe.

// The record's history, as far as the record contains it.
std::string StoryOf(const v1::Record& record, absl::Time now);
// The verdict that a call with its key and its request gets now, and why.
std::string NextVerdict(const v1::Record& record, absl::Time now);
// The operator's next step; empty: none.
std::string Remedy(const v1::Record& record, absl::Time now);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_EXPLANATION_RECORD_STORY_H_
