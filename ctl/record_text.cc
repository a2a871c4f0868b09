#include "ctl/record_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "core/absl_view.h"
#include "core/wire_time.h"
#include "explanation/printable_text.h"
#include "explanation/time_text.h"

namespace idempotency::internal {
namespace {

// The most of a body that a terminal gets; --json has all of it.
constexpr std::size_t kShownBytes = 1024;

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string Aligned(const Lines& lines) {
  std::size_t longest = 0;
  for (const auto& [name, value] : lines) longest = std::max(longest, name.size());
  std::string text;
  for (const auto& [name, value] : lines) {
    std::string line = absl::StrCat(name, ":", std::string(longest - name.size() + 2, ' '));
    const std::string indent(line.size(), ' ');
    absl::StrAppend(&line, absl::StrReplaceAll(value, {{"\n", "\n" + indent}}), "\n");
    text += line;
  }
  return text;
}

std::string Shown(const std::string& bytes) {
  std::string text = PrintableText(std::string_view(bytes).substr(0, kShownBytes));
  if (bytes.size() > kShownBytes) {
    absl::StrAppend(&text, " … (", bytes.size() - kShownBytes, " more bytes: --json has all)");
  }
  return text;
}

std::string KeyText(const v1::RecordKey& key) {
  return absl::StrCat(PrintableText(key.namespace_()), " / ", PrintableText(key.scope()), " / ",
                      PrintableText(key.operation()), " / ", PrintableText(key.key()));
}

std::string Labels(const v1::Record& record) {
  // Sorted: a map of protobuf has no order.
  const std::map<std::string, std::string> sorted(record.labels().begin(), record.labels().end());
  std::string text;
  for (const auto& [name, value] : sorted) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", PrintableText(name), " = ",
                    PrintableText(value));
  }
  return text;
}

std::string Without(absl::string_view prefix, const std::string& name) {
  return std::string(absl::StripPrefix(name, prefix));
}

std::string CodeText(const v1::Reply& reply) {
  std::string text = absl::StrCat(reply.code());
  if (!reply.message().empty()) absl::StrAppend(&text, ": ", PrintableText(reply.message()));
  return text;
}

void AddMetadata(absl::string_view name,
                 const google::protobuf::RepeatedPtrField<v1::MetadataEntry>& entries,
                 Lines* lines) {
  for (const v1::MetadataEntry& entry : entries) {
    lines->emplace_back(std::string(name),
                        absl::StrCat(PrintableText(entry.key()), " = ", Shown(entry.value())));
  }
}

}  // namespace

std::string StateText(v1::RecordState state) {
  return Without("RECORD_STATE_", v1::RecordState_Name(state));
}

std::string DescribeRecord(const v1::Record& record, absl::Time now) {
  const v1::RecordKey& key = record.record_key();
  Lines lines = {{"Record", PrintableText(record.record_id())},
                 {"Namespace", PrintableText(key.namespace_())},
                 {"Scope", PrintableText(key.scope())},
                 {"Operation", PrintableText(key.operation())},
                 {"Key", PrintableText(key.key())},
                 {"State", StateText(record.state())},
                 {"Attempt", absl::StrCat(record.attempt())},
                 {"Created", TimeText(record.created_at(), now)}};
  const auto add_time = [&](absl::string_view name, bool present,
                            const google::protobuf::Timestamp& time) {
    if (present) lines.emplace_back(std::string(name), TimeText(time, now));
  };
  if (record.state() != v1::RECORD_STATE_COMPLETED) {
    add_time("Lease ends", record.has_lease_expires_at(), record.lease_expires_at());
  }
  add_time("Completed", record.has_completed_at(), record.completed_at());
  add_time("Content until", record.has_reply_expires_at(), record.reply_expires_at());
  add_time("Expires", record.has_expires_at(), record.expires_at());
  add_time("Refused until", record.has_tombstone_until(), record.tombstone_until());
  lines.emplace_back("On lease expiry",
                     Without("LEASE_EXPIRY_", v1::LeaseExpiry_Name(record.on_lease_expiry())));
  if (!record.release_reason().empty()) {
    lines.emplace_back("Released for", PrintableText(record.release_reason()));
  }
  if (record.has_parent()) lines.emplace_back("Parent", KeyText(record.parent()));
  if (!record.labels().empty()) lines.emplace_back("Labels", Labels(record));
  if (record.has_reply()) lines.emplace_back("Reply", CodeText(record.reply()));
  return Aligned(lines);
}

std::string DescribeReply(const v1::Record& record) {
  if (!record.has_reply()) return "";
  const v1::Reply& reply = record.reply();
  const v1::ReplyContent content =
      reply.content() == v1::REPLY_CONTENT_UNSPECIFIED ? v1::REPLY_CONTENT_FULL : reply.content();
  Lines lines = {{"Content", Without("REPLY_CONTENT_", v1::ReplyContent_Name(content))}};
  if (reply.has_body()) lines.emplace_back("Body", Shown(reply.body()));
  for (const std::string& message : reply.stream()) lines.emplace_back("Message", Shown(message));
  if (!reply.details().empty()) lines.emplace_back("Details", Shown(reply.details()));
  AddMetadata("Initial metadata", reply.initial_metadata(), &lines);
  AddMetadata("Trailing metadata", reply.trailing_metadata(), &lines);
  return Aligned(lines);
}

std::vector<std::string> RecordHeading() {
  return {"RECORD", "STATE", "ATTEMPT", "AGE", "SCOPE", "OPERATION", "KEY"};
}

std::vector<std::string> RecordRow(const v1::Record& record, absl::Time now) {
  const v1::RecordKey& key = record.record_key();
  return {PrintableText(record.record_id()), StateText(record.state()),
          absl::StrCat(record.attempt()),    SpanText(now - FromWire(record.created_at())),
          PrintableText(key.scope()),        PrintableText(key.operation()),
          PrintableText(key.key())};
}

std::string ActionText(v1::AuditAction action) {
  return Without("AUDIT_ACTION_", v1::AuditAction_Name(action));
}

std::string AuditText(const v1::AuditEntry& entry) {
  return absl::StrCat(
      ActionText(entry.action()), entry.forced() ? " (forced)" : "",
      entry.records() > 1 ? absl::StrCat(" with ", entry.records() - 1, " others") : "", " by ",
      PrintableText(entry.actor()), ": ", PrintableText(entry.reason()));
}

void NoteDamaged(std::int64_t damaged, Terminal& terminal) {
  if (damaged == 0) return;
  terminal.Note(absl::StrCat("Not listed: ", damaged, damaged == 1 ? " record" : " records",
                             " that cannot be read (RECORD_DAMAGED).\n"));
}

}  // namespace idempotency::internal
