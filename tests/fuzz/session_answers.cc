#include "tests/fuzz/session_answers.h"

#include <algorithm>

#include "grpc_idempotency/record_key.h"
#include "tests/fuzz/property.h"

namespace idempotency::internal::fuzz {
namespace {

std::string RecordOf(const v1::RecordKey& key) { return RecordIdFor(FromProto(key)).ToString(); }

// The kind of operation that a response answers.
v1::SessionOperation::OperationCase KindOf(const v1::SessionAnswer& answer) {
  switch (answer.response_case()) {
    case v1::SessionAnswer::kReserve:
      return v1::SessionOperation::kReserve;
    case v1::SessionAnswer::kComplete:
      return v1::SessionOperation::kComplete;
    case v1::SessionAnswer::kRelease:
      return v1::SessionOperation::kRelease;
    case v1::SessionAnswer::kExtend:
      return v1::SessionOperation::kExtend;
    case v1::SessionAnswer::kGet:
      return v1::SessionOperation::kGet;
    case v1::SessionAnswer::RESPONSE_NOT_SET:
      break;
  }
  return v1::SessionOperation::OPERATION_NOT_SET;
}

}  // namespace

void SessionAnswers::Sent(const v1::SessionRequest& frame) {
  last_operations_ = 0;
  for (const v1::SessionOperation& operation : frame.operations()) {
    if (operation.has_cancel()) continue;
    ++last_operations_;
    unanswered_[operation.id()].push_back(operation.operation_case());
    if (operation.has_release()) ++releases_[RecordOf(operation.release().record_key())];
    if (operation.has_complete()) {
      completions_[RecordOf(operation.complete().record_key())].insert(
          operation.complete().reply().SerializeAsString());
    }
  }
}

void SessionAnswers::Came(const v1::SessionResponse& frame) {
  if (!established_) {
    Require(frame.limits().max_in_flight() > 0 && frame.limits().max_frame_bytes() > 0,
            "the first frame contains the limits");
    established_ = true;
  }
  for (const v1::SessionAnswer& answer : frame.answers()) TakeAnswer(answer);
}

void SessionAnswers::TakeAnswer(const v1::SessionAnswer& answer) {
  const auto found = unanswered_.find(answer.id());
  Require(found != unanswered_.end(), "an answer belongs to a request");
  std::vector<Kind>& kinds = found->second;
  auto kind = kinds.begin();
  if (answer.has_error()) {
    Require(answer.error().code() > 0, "an error is no success");
    Require(answer.response_case() == v1::SessionAnswer::RESPONSE_NOT_SET,
            "an error has no response");
  } else {
    kind = std::find(kinds.begin(), kinds.end(), KindOf(answer));
    Require(kind != kinds.end() && *kind != v1::SessionOperation::OPERATION_NOT_SET,
            "a response is one of the operation's kind");
  }
  kinds.erase(kind);
  if (kinds.empty()) unanswered_.erase(found);
  if (answer.has_reserve()) TakeVerdict(answer.reserve());
}

void SessionAnswers::TakeVerdict(const v1::ReserveResponse& response) {
  const std::string& record = response.record_id();
  if (response.has_reserved()) {
    grants_[record].insert(response.reserved().reservation_token());
    Require(grants_[record].size() <= 1 + releases_[record],
            "while a lease lasts nobody else runs, unless it was given back");
  } else if (response.has_replay()) {
    Require(completions_[record].count(response.replay().reply().SerializeAsString()) == 1,
            "a replay is what somebody completed with");
  }
}

void SessionAnswers::End(bool refused) const {
  std::size_t open = 0;
  for (const auto& [id, kinds] : unanswered_) open += kinds.size();
  // A frame that is refused as a whole ends the stream for those before it, too.
  Require(refused ? open >= last_operations_ : open == 0, "every operation is answered");
}

}  // namespace idempotency::internal::fuzz
