#include "tests/chaos/workload/raw_burst.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal::testing {
namespace {

constexpr int kRecords = 24;

using Kind = RawOperation::Kind;

}  // namespace

RawBurst::RawBurst(RawClient& client, KnownRecords& known, std::mt19937_64& random)
    : client_(client), known_(known), random_(random), records_(kRecords) {
  for (Record& record : records_) {
    record.known.key = {"raw", random_() % 2 == 0 ? "alice" : "bob", "work",
                        Uuid::Random().ToString()};
    record.known.raw = true;
    record.known.recovery = random_() % 3 == 0;
    known_.Touch(record.known);
  }
}

RawBurst::~RawBurst() {
  for (const Record& record : records_) known_.Touch(record.known);
}

bool RawBurst::Round() {
  for (Record& record : records_) {
    const std::uint64_t draw = random_() % 10;
    std::vector<RawOperation> operations(draw < 7 ? 1 : draw < 9 ? 2 : 3);
    {
      MutexLock lock(mutex_);
      for (RawOperation& operation : operations) operation = Draw(record);
    }
    for (const RawOperation& operation : operations) Send(record, operation);
  }
  MutexLock lock(mutex_);
  while (outstanding_ > 0) answered_.Wait(lock);
  const bool had = unanswered_ * 2 < sent_;
  sent_ = unanswered_ = 0;
  return had;
}

RawOperation RawBurst::Reserve(const Record& record) {
  RawOperation operation;
  operation.key = record.known.key;
  operation.request_token = Uuid::Random().ToString();
  operation.recovery = record.known.recovery;
  return operation;
}

RawOperation RawBurst::With(Kind kind, const Record& record, const std::string& token) {
  RawOperation operation;
  operation.kind = kind;
  operation.key = record.known.key;
  operation.token = token;
  if (kind == Kind::kComplete) operation.reply = absl::StrCat("reply ", random_());
  return operation;
}

RawOperation RawBurst::Draw(const Record& record) {
  switch (record.state) {
    case State::kFree:
      return Reserve(record);
    case State::kHeld:
      return DrawHeld(record);
    case State::kCompleted:
      return DrawCompleted(record);
    case State::kUnknown:
      break;
  }
  RawOperation operation = Reserve(record);
  operation.recover = random_() % 2 == 0;
  return operation;
}

RawOperation RawBurst::DrawHeld(const Record& record) {
  const std::uint64_t draw = random_() % 100;
  if (draw < 25) return With(Kind::kExtend, record, record.token);
  if (draw < 70) return With(Kind::kComplete, record, record.token);
  if (draw < 78) return With(Kind::kRelease, record, record.token);
  if (draw < 84 && record.known.recovery) {
    RawOperation operation = With(Kind::kRelease, record, record.token);
    operation.outcome_unknown = true;
    return operation;
  }
  if (draw < 88) {
    const bool made_up = record.stale.empty();
    return With(Kind::kComplete, record, made_up ? Uuid::Random().ToString() : record.stale.back());
  }
  RawOperation operation = Reserve(record);
  operation.waits = draw % 2 == 0;
  // The same call again.
  if (draw < 92) operation.request_token = record.request_token;
  return operation;
}

RawOperation RawBurst::DrawCompleted(const Record& record) {
  const std::uint64_t draw = random_() % 100;
  if (draw < 84) return Reserve(record);
  if (draw < 89) {
    RawOperation operation = Reserve(record);
    operation.request = "b";
    return operation;
  }
  if (draw < 94) {
    RawOperation operation = With(Kind::kComplete, record, record.token);
    operation.reply = record.reply;
    return operation;
  }
  // With a reply of its own: refused, whether the token is stale or not.
  if (draw < 97) {
    return With(Kind::kComplete, record,
                record.stale.empty() ? record.token : record.stale.front());
  }
  return With(draw == 97 ? Kind::kExtend : Kind::kRelease, record, record.token);
}

void RawBurst::Send(Record& record, const RawOperation& operation) {
  {
    MutexLock lock(mutex_);
    ++outstanding_;
    ++sent_;
  }
  client_.Send(operation, [this, &record, operation](const RawAnswer& answer) {
    MutexLock lock(mutex_);
    Apply(operation, answer, record);
    if (answer.event == "unknown" || answer.verdict == "unavailable") ++unanswered_;
    if (--outstanding_ == 0) answered_.NotifyAll();
  });
}

void RawBurst::Apply(const RawOperation& operation, const RawAnswer& answer, Record& record) {
  const std::string& verdict = answer.verdict;
  if (record.state == State::kCompleted) return;
  if (verdict == "reserved") {
    if (answer.token != record.token && !record.token.empty()) {
      record.stale.push_back(record.token);
    }
    record.token = answer.token;
    record.request_token = operation.request_token;
    record.state = State::kHeld;
  } else if (verdict == "completed") {
    record.reply = operation.reply;
    record.state = State::kCompleted;
    record.known.settled = true;
  } else if (verdict == "replay") {
    record.state = State::kCompleted;
    record.known.settled = true;
  } else if (verdict == "outcome_unknown") {
    record.state = State::kUnknown;
  } else if (verdict == "released") {
    record.state = operation.outcome_unknown ? State::kUnknown : State::kFree;
  } else if (verdict == "lost" && operation.token == record.token) {
    record.state = State::kFree;
  }
}

}  // namespace idempotency::internal::testing
