#include "explanation/record_story.h"

#include "absl/strings/str_cat.h"

#include "core/wire_time.h"
#include "explanation/printable_text.h"
#include "explanation/time_text.h"

namespace idempotency::internal {
namespace {

bool LeaseIsLive(const v1::Record& record, absl::Time now) {
  return FromWire(record.lease_expires_at()) > now;
}

bool IsForgotten(const v1::Record& record, absl::Time now) {
  const bool stays = record.state() == v1::RECORD_STATE_UNKNOWN ||
                     (record.state() == v1::RECORD_STATE_RESERVED &&
                      record.on_lease_expiry() != v1::LEASE_EXPIRY_TAKE_OVER);
  return !stays && FromWire(record.expires_at()) <= now;
}

bool HasWholeReply(const v1::Record& record, absl::Time now) {
  const v1::ReplyContent content = record.reply().content();
  return (content == v1::REPLY_CONTENT_FULL || content == v1::REPLY_CONTENT_UNSPECIFIED) &&
         (!record.has_reply_expires_at() || FromWire(record.reply_expires_at()) > now);
}

std::string EndOfAttempt(const v1::Record& record, absl::Time now) {
  const std::string attempt = absl::StrCat("Attempt ", record.attempt());
  const std::string lease = TimeText(record.lease_expires_at(), now);
  const std::string reason = record.release_reason().empty()
                                 ? "."
                                 : absl::StrCat(": ", PrintableText(record.release_reason()), ".");
  switch (record.state()) {
    case v1::RECORD_STATE_RESERVED:
      return LeaseIsLive(record, now)
                 ? absl::StrCat(attempt, " holds the reservation; its lease ends ", lease, ".")
                 : absl::StrCat(attempt, " was lost, or is very slow: its lease ended ", lease,
                                ", and no reply was recorded.");
    case v1::RECORD_STATE_COMPLETED:
      return absl::StrCat(attempt, " completed ", TimeText(record.completed_at(), now),
                          " with status ", record.reply().code(), ".");
    case v1::RECORD_STATE_RELEASED:
      return absl::StrCat(attempt, " had no effect and released its reservation", reason);
    case v1::RECORD_STATE_UNKNOWN:
      return record.release_reason().empty()
                 ? absl::StrCat(attempt, " ended without reporting its outcome: its lease ended ",
                                lease, ". It may have had its effect.")
                 : absl::StrCat(attempt, " may have had its effect", reason);
    default:
      return absl::StrCat(attempt, " is in a state that this idempotencyctl does not know.");
  }
}

}  // namespace

std::string StoryOf(const v1::Record& record, absl::Time now) {
  std::string story =
      absl::StrCat("The key was first reserved ", TimeText(record.created_at(), now), ".");
  if (record.attempt() > 1) {
    absl::StrAppend(&story, " ", record.attempt() - 1,
                    " earlier attempts were released, taken over or recovered; the record keeps "
                    "the last one.");
  }
  absl::StrAppend(&story, " ", EndOfAttempt(record, now));
  if (record.has_parent()) {
    absl::StrAppend(&story, " The call was made in the handler of ",
                    PrintableText(record.parent().operation()), ", record or key ",
                    PrintableText(record.parent().key()), ".");
  }
  return story;
}

std::string NextVerdict(const v1::Record& record, absl::Time now) {
  if (IsForgotten(record, now)) {
    return record.has_tombstone_until() && FromWire(record.tombstone_until()) > now
               ? "expired (KEY_EXPIRED): the record is forgotten, and its key is refused for a time"
               : "reserved, attempt 1: the record is forgotten (a UUIDv7 key that is too old is "
                 "refused: KEY_EXPIRED)";
  }
  switch (record.state()) {
    case v1::RECORD_STATE_RESERVED:
      if (LeaseIsLive(record, now)) return "in_flight (IN_FLIGHT, or it waits): an attempt runs";
      if (record.on_lease_expiry() == v1::LEASE_EXPIRY_TAKE_OVER) {
        return absl::StrCat("reserved, attempt ", record.attempt() + 1,
                            ": the lease is over, and the method may be taken over (TAKE_OVER)");
      }
      return "outcome_unknown (OUTCOME_UNKNOWN): the lease is over, and the method requires "
             "recovery";
    case v1::RECORD_STATE_COMPLETED:
      return HasWholeReply(record, now)
                 ? "replay: the stored reply, without running the handler"
                 : "replay of what is kept of the reply, without running the handler; a guard that "
                   "cannot answer with that refuses (REPLY_NOT_KEPT)";
    case v1::RECORD_STATE_RELEASED:
      if (LeaseIsLive(record, now)) {
        return "in_flight (IN_FLIGHT): the attempt failed, and the pause after it is not over";
      }
      return absl::StrCat("reserved, attempt ", record.attempt() + 1,
                          ": the last attempt had no effect");
    case v1::RECORD_STATE_UNKNOWN:
      return "outcome_unknown (OUTCOME_UNKNOWN), until it is settled or recovered";
    default:
      return "unknown to this idempotencyctl";
  }
}

std::string Remedy(const v1::Record& record, absl::Time now) {
  const bool lost = record.state() == v1::RECORD_STATE_RESERVED && !LeaseIsLive(record, now) &&
                    record.on_lease_expiry() != v1::LEASE_EXPIRY_TAKE_OVER;
  if (record.state() != v1::RECORD_STATE_UNKNOWN && !lost) return "";
  return absl::StrCat(
      "Find out, in the systems that ", PrintableText(record.record_key().operation()),
      " writes to, whether it took place. Then settle the record:\n  idempotencyctl resolve ",
      PrintableText(record.record_id()),
      " --outcome=completed --body_file=FILE --reason=TEXT\n  idempotencyctl resolve ",
      PrintableText(record.record_id()), " --outcome=released --reason=TEXT");
}

}  // namespace idempotency::internal
