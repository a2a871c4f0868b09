#ifndef IDEMPOTENCY_CTL_RECORD_SELECTOR_H_
#define IDEMPOTENCY_CTL_RECORD_SELECTOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "command_line/flag_set.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// One record, by its id or by the four parts of its key. Thread-compatible.
class RecordSelector {
 public:
  void AddTo(FlagSet& flags);
  // INVALID_ARGUMENT unless exactly one of both is given. `operand` is the id.
  absl::Status Set(absl::string_view operand);

  const std::string& id() const { return id_; }
  const v1::RecordKey& key() const { return key_; }
  v1::GetRequest ToRequest(v1::RecordView view) const;

 private:
  std::string namespace_;
  std::string scope_;
  std::string operation_;
  std::string key_text_;
  std::string id_;
  v1::RecordKey key_;
};

// INVALID_ARGUMENT unless `operand` is a record id.
absl::Status ValidateRecordId(absl::string_view operand);

// The flags that select records of a namespace. Thread-compatible.
class RecordFilter {
 public:
  void AddTo(FlagSet& flags);
  // INVALID_ARGUMENT for a wrong value.
  absl::Status Validate();
  // `now` is the end of the ages.
  v1::ListRequest ToRequest(absl::Time now) const;
  const std::string& name_space() const { return namespace_; }

 private:
  std::string namespace_;
  std::string scope_;
  std::string operation_;
  std::string state_;
  absl::Duration older_than_ = absl::ZeroDuration();
  absl::Duration newer_than_ = absl::ZeroDuration();
  v1::RecordState wanted_ = v1::RECORD_STATE_UNSPECIFIED;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_RECORD_SELECTOR_H_
