#include "tests/integration/outcome_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal::testing {
namespace {

using grpc::StatusCode;

// The end of a reservation whose handler has returned `code`.
enum class Fate { kRecorded, kReleased, kReleasedWithAPause, kUnknown, kLeftToTheLease };

Fate FateOf(const Cell& cell) {
  const TablePolicy& policy = cell.policy;
  // OK, and codes that the policy records, are the operation's outcome, with or without
  // MarkNoEffect().
  if (cell.outcome == StatusCode::OK) return Fate::kRecorded;
  if (RecordedBy(policy.lists).count(cell.outcome) > 0) return Fate::kRecorded;
  // A definite failure, by MarkNoEffect() or by the policy.
  if (cell.no_effect) return Fate::kReleased;
  if (ReleasedBy(policy.lists).count(cell.outcome) > 0) return Fate::kReleased;
  // Every other code is indefinite: the effect may have happened.
  if (policy.require_recovery) return Fate::kUnknown;
  // Running again is acceptable, but not while the work may still be under way, and never at once.
  if (cell.outcome == StatusCode::CANCELLED || cell.outcome == StatusCode::DEADLINE_EXCEEDED) {
    return Fate::kLeftToTheLease;
  }
  return Fate::kReleasedWithAPause;
}

std::string NameOf(CodeLists lists) {
  switch (lists) {
    case CodeLists::kDefault:
      return "default codes";
    case CodeLists::kNone:
      return "no codes";
    case CodeLists::kOwn:
      return "own codes";
  }
  return "";
}

std::string NameOf(MethodPolicy::Reply reply) {
  switch (reply) {
    case MethodPolicy::Reply::kFull:
      return "FULL";
    case MethodPolicy::Reply::kStatusOnly:
      return "STATUS_ONLY";
    case MethodPolicy::Reply::kReference:
      return "REFERENCE";
  }
  return "";
}

void Add(absl::string_view name, absl::string_view value, std::string& text) {
  if (!value.empty()) absl::StrAppend(&text, ", ", name, " \"", value, "\"");
}

void Add(absl::string_view name, bool is, std::string& text) {
  if (is) absl::StrAppend(&text, ", ", name);
}

}  // namespace

std::set<StatusCode> RecordedBy(CodeLists lists) {
  switch (lists) {
    case CodeLists::kDefault:
      return {StatusCode::INVALID_ARGUMENT,    StatusCode::NOT_FOUND,
              StatusCode::ALREADY_EXISTS,      StatusCode::PERMISSION_DENIED,
              StatusCode::FAILED_PRECONDITION, StatusCode::OUT_OF_RANGE};
    case CodeLists::kNone:
      return {};
    case CodeLists::kOwn:
      return {StatusCode::NOT_FOUND, StatusCode::INTERNAL, StatusCode::ABORTED,
              StatusCode::DATA_LOSS};
  }
  return {};
}

std::set<StatusCode> ReleasedBy(CodeLists lists) {
  if (lists != CodeLists::kOwn) return {};
  return {StatusCode::FAILED_PRECONDITION, StatusCode::RESOURCE_EXHAUSTED,
          StatusCode::UNAUTHENTICATED, StatusCode::INVALID_ARGUMENT};
}

const char* NameOf(Before before) {
  switch (before) {
    case Before::kNothing:
      return "nothing";
    case Before::kReleased:
      return "released";
    case Before::kLapsed:
      return "lapsed";
    case Before::kCompleted:
      return "completed";
    case Before::kRunning:
      return "running";
    case Before::kEndedMeanwhile:
      return "running, completed while it is waited for";
    case Before::kGivenMeanwhile:
      return "running, released while it is waited for";
    case Before::kStillRunning:
      return "running, waited for in vain";
    case Before::kOtherCompleted:
      return "another request, completed";
    case Before::kOtherRunning:
      return "another request, running";
    case Before::kUnknown:
      return "unknown";
    case Before::kTooOld:
      return "key too old";
    case Before::kRefused:
      return "refused by the service";
  }
  return "";
}

std::string NameOf(const Cell& cell) {
  return absl::StrCat(NameOf(cell.before), "; handler: ", StatusCodeName(cell.outcome),
                      cell.no_effect ? " and nothing happened" : "", "; ",
                      NameOf(cell.policy.lists), ", ",
                      cell.policy.require_recovery ? "REQUIRE_RECOVERY" : "TAKE_OVER", ", ",
                      NameOf(cell.policy.reply), cell.policy.fail_open ? ", fail open" : "");
}

TableReply TableReply::Of(StatusCode code, const std::string& source) {
  TableReply reply;
  reply.code = code;
  // An OK has a message of the service's and no text, an error the reverse.
  if (code == StatusCode::OK) {
    reply.effect = source;
  } else {
    reply.message = source;
    reply.details = source;
  }
  reply.initial_metadata = source;
  reply.trailing_metadata = source;
  return reply;
}

std::string TableStep::ToString() const {
  std::string text = StatusCodeName(answer.code);
  if (answer.reason.has_value()) {
    const auto name = ReasonName(*answer.reason);
    absl::StrAppend(&text, " ", absl::string_view(name.data(), name.size()));
  }
  Add("message", answer.message, text);
  Add("details", answer.details, text);
  Add("effect", answer.effect, text);
  Add("initial metadata", answer.initial_metadata, text);
  Add("trailing metadata", answer.trailing_metadata, text);
  Add("original code", answer.original_code, text);
  Add("retry info", answer.retry_info, text);
  Add("pushback", answer.pushback, text);
  Add("names the record", answer.names_record, text);
  Add("names its expiry", answer.names_expiry, text);
  Add("replayed", answer.replayed, text);
  Add("content", answer.content, text);
  return absl::StrCat(text, "; runs: ", runs, "; record: ", record);
}

OutcomeModel::OutcomeModel(const Cell& cell) : cell_(cell) {
  stored_ = TableReply::Of(cell.outcome, "stored");
  attempt_ = 1;
  switch (cell.before) {
    case Before::kNothing:
    case Before::kTooOld:
      attempt_ = 0;
      break;
    case Before::kRefused:
      attempt_ = 0;
      store_refuses_ = true;
      break;
    case Before::kReleased:
    case Before::kGivenMeanwhile:
      state_ = State::kReleased;
      break;
    case Before::kLapsed:
      state_ = State::kReserved;
      lease_over_ = true;
      break;
    case Before::kOtherCompleted:
      other_request_ = true;
      state_ = State::kCompleted;
      break;
    case Before::kCompleted:
    case Before::kEndedMeanwhile:
      state_ = State::kCompleted;
      break;
    case Before::kOtherRunning:
      other_request_ = true;
      state_ = State::kReserved;
      break;
    case Before::kRunning:
    case Before::kStillRunning:
      state_ = State::kReserved;
      break;
    case Before::kUnknown:
      state_ = State::kUnknown;
      break;
  }
}

std::vector<TableStep> OutcomeModel::Steps() {
  std::vector<TableStep> steps = {Call()};
  store_refuses_ = false;
  steps.push_back(Call());
  if (state_ == State::kReserved || paused_) {
    lease_over_ = true;
    paused_ = false;
    steps.push_back(Call());
  }
  return steps;
}

TableStep OutcomeModel::Call() {
  TableStep step;
  if (store_refuses_) {
    // An answer, also where the policy fails open: that is for calls without an answer.
    step.answer = Reject(Reason::kRequestInvalid, StatusCode::INVALID_ARGUMENT, /*retry=*/true);
  } else if (cell_.before == Before::kTooOld) {
    step.answer = Reject(Reason::kKeyExpired, StatusCode::FAILED_PRECONDITION);
  } else if (other_request_) {
    step.answer = Reject(Reason::kKeyReused, StatusCode::FAILED_PRECONDITION);
  } else if (state_ == State::kCompleted) {
    step.answer = Replay();
  } else if ((state_ == State::kReserved && !lease_over_) || paused_) {
    step.answer = Reject(Reason::kInFlight, StatusCode::ABORTED, /*retry=*/true);
  } else if (state_ == State::kUnknown ||
             (state_ == State::kReserved && cell_.policy.require_recovery)) {
    state_ = State::kUnknown;
    step.answer = Reject(Reason::kOutcomeUnknown, StatusCode::FAILED_PRECONDITION);
  } else {
    step.answer = Run();
  }
  step.runs = runs_;
  static constexpr const char* kNames[] = {"none", "RESERVED", "COMPLETED", "RELEASED", "UNKNOWN"};
  step.record = kNames[static_cast<int>(state_)];
  if (state_ != State::kNone) absl::StrAppend(&step.record, " ", attempt_);
  return step;
}

TableReply OutcomeModel::HandlersReply() {
  return TableReply::Of(cell_.outcome, absl::StrCat("run ", ++runs_));
}

TableAnswer OutcomeModel::Run() {
  ++attempt_;
  lease_over_ = false;
  TableAnswer answer;
  // The first caller gets everything, independent of the stored part.
  static_cast<TableReply&>(answer) = HandlersReply();
  answer.names_record = true;
  SettleAfterRun(answer);
  answer.names_expiry = state_ == State::kCompleted;
  return answer;
}

void OutcomeModel::SettleAfterRun(const TableReply& reply) {
  switch (FateOf(cell_)) {
    case Fate::kRecorded:
      state_ = State::kCompleted;
      stored_ = reply;
      content_ = Content::kFull;
      if (cell_.policy.reply == MethodPolicy::Reply::kStatusOnly) content_ = Content::kStatusOnly;
      // An error has no effect that could be loaded again.
      if (cell_.policy.reply == MethodPolicy::Reply::kReference && reply.code == StatusCode::OK) {
        content_ = Content::kReference;
      }
      return;
    case Fate::kReleased:
      state_ = State::kReleased;
      return;
    case Fate::kReleasedWithAPause:
      state_ = State::kReleased;
      paused_ = true;
      return;
    case Fate::kUnknown:
      state_ = State::kUnknown;
      return;
    case Fate::kLeftToTheLease:
      state_ = State::kReserved;
      return;
  }
}

TableAnswer OutcomeModel::Replay() const {
  if (content_ == Content::kStatusOnly && stored_.code == StatusCode::OK) {
    TableAnswer refused = Reject(Reason::kReplyNotKept, StatusCode::FAILED_PRECONDITION);
    refused.original_code = "0";
    return refused;
  }
  TableAnswer answer;
  static_cast<TableReply&>(answer) = stored_;
  if (content_ != Content::kFull) {
    answer.details = "";
    answer.initial_metadata = "";
    answer.trailing_metadata = "";
    answer.content = content_ == Content::kReference ? "reference" : "status-only";
  }
  if (content_ == Content::kReference) answer.effect = absl::StrCat("read anew: ", stored_.effect);
  answer.names_record = true;
  answer.names_expiry = true;
  answer.replayed = true;
  return answer;
}

TableAnswer OutcomeModel::Reject(Reason reason, StatusCode code, bool retry) const {
  TableAnswer answer;
  answer.reason = reason;
  answer.code = code;
  answer.retry_info = retry;
  // An unknown outcome stops gRPC's own retries.
  answer.pushback = retry || reason == Reason::kOutcomeUnknown;
  // A verdict concerns a record, also one that no longer exists.
  answer.names_record = reason != Reason::kStoreUnavailable && reason != Reason::kRequestInvalid;
  return answer;
}

}  // namespace idempotency::internal::testing
