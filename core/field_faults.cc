#include "core/field_faults.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"

namespace idempotency::internal {

void FieldFaults::Add(std::string_view field, std::string_view description) {
  Name({std::string(field), std::string(description)});
}

void FieldFaults::Add(const absl::Status& status) {
  if (status.ok()) return;
  const Reason reason = ReasonOf(status).value_or(Reason::kRequestInvalid);
  if (reason_ == Reason::kRequestInvalid) reason_ = reason;
  for (FieldViolation& violation : DetailsOf(status).violations) Name(std::move(violation));
}

void FieldFaults::Name(FieldViolation violation) {
  if (++count_ > kMaxNamed) return;
  // The faults that are in the message are the first ones.
  if (in_message_ + 1 == count_) {
    const std::string fault =
        absl::StrCat(message_.empty() ? "" : "; ", violation.field, ": ", violation.description);
    if (message_.size() + fault.size() <= kMaxMessageBytes || message_.empty()) {
      message_ += fault;
      ++in_message_;
    }
  }
  details_.violations.push_back(std::move(violation));
}

absl::Status FieldFaults::status() const {
  if (empty()) return absl::OkStatus();
  if (count_ == in_message_) return MakeError(reason_, message_, details_);
  return MakeError(reason_, absl::StrCat(message_, "; and ", count_ - in_message_, " more faults"),
                   details_);
}

}  // namespace idempotency::internal
