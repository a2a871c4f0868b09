#ifndef IDEMPOTENCY_CTL_RECORD_TEXT_H_
#define IDEMPOTENCY_CTL_RECORD_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "ctl/terminal.h"
#include "ctl/text_table.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// Records as printable text. Thread-safe.

// "UNKNOWN".
std::string StateText(v1::RecordState state);

// "Name:    value", one line each, the values below each other; a value of several lines is
// indented. Without the reply's content.
std::string DescribeRecord(const v1::Record& record, absl::Time now);
// The reply's status, and its content as far as `record` has it.
std::string DescribeReply(const v1::Record& record);

// The heading and the row of a record in a listing.
std::vector<std::string> RecordHeading();
std::vector<std::string> RecordRow(const v1::Record& record, absl::Time now);

// "RESOLVED_COMPLETED by on-call: ticket 42".
std::string AuditText(const v1::AuditEntry& entry);
std::string ActionText(v1::AuditAction action);

// Reports records that a listing leaves out, if there are any.
void NoteDamaged(std::int64_t damaged, Terminal& terminal);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_RECORD_TEXT_H_
