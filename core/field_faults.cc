#include "core/field_faults.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"

namespace idempotency {

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
  absl::StrAppend(&message_, message_.empty() ? "" : "; ", violation.field, ": ",
                  violation.description);
  details_.violations.push_back(std::move(violation));
}

absl::Status FieldFaults::status() const {
  if (empty()) return absl::OkStatus();
  if (count_ <= kMaxNamed) return MakeError(reason_, message_, details_);
  return MakeError(reason_, absl::StrCat(message_, "; and ", count_ - kMaxNamed, " more faults"),
                   details_);
}

}  // namespace idempotency
