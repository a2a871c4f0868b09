#include "tests/simulation/checker.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal::simulation {

namespace {

bool IsSame(const v1::Reply& one, const v1::Reply& other) {
  return one.code() == other.code() && one.message() == other.message() &&
         one.body() == other.body();
}

}  // namespace

void Checker::Require(bool condition, const char* promise, const RecordId& id) {
  if (condition) return;
  journal_.Broken(absl::StrCat(promise, " (record ", id.ToString(), ")"));
}

bool Checker::IsForgotten(const Life& life, absl::Time now) {
  if (now < life.expires_at || life.state == State::kUnknown) return false;
  return !(life.state == State::kReserved && life.on_lease_expiry == LeaseExpiry::kRequireRecovery);
}

Checker::Life* Checker::LifeOf(const RecordId& id, absl::Time now) {
  History& history = histories_[id];
  if (history.lives.empty() || IsForgotten(history.lives.back(), now)) return nullptr;
  return &history.lives.back();
}

std::vector<RecordId> Checker::Ids() const {
  std::vector<RecordId> ids;
  for (const auto& [id, history] : histories_) ids.push_back(id);
  return ids;
}

// Reserve.

void Checker::OnReserve(const ReserveOp& op, const absl::StatusOr<Verdict>& answer,
                        absl::Time now) {
  if (const auto call = op.labels.find("call"); call != op.labels.end()) {
    Require(op.request_token.has_value(), "a guard sends no request token", op.id);
    Require(
        request_tokens_.emplace(call->second, *op.request_token).first->second == *op.request_token,
        "one call sends two request tokens", op.id);
  }
  if (!answer.ok()) return;
  if (const auto* grant = std::get_if<Reserved>(&*answer)) return OnGrant(op, *grant, now);
  Life* const life = LifeOf(op.id, now);
  if (std::holds_alternative<Expired>(*answer)) {
    journal_.Counted(Count::kExpired);
    return Require(life == nullptr, "a key is expired while its record lives", op.id);
  }
  Require(life != nullptr, "a verdict about a record that is forgotten", op.id);
  const bool same =
      CompareFingerprints(life->fingerprints, op.fingerprints) == FingerprintMatch::kSame;
  if (std::holds_alternative<Mismatch>(*answer)) {
    journal_.Counted(Count::kMismatch);
    return Require(!same, "the same request is called another", op.id);
  }
  Require(same, "another request than the record's is not refused", op.id);
  if (const auto* replay = std::get_if<Replay>(&*answer)) {
    journal_.Counted(Count::kReplay);
    Require(life->state == State::kCompleted, "a replay of what is not completed", op.id);
    Require(replay->reply == *life->reply, "a replay is not the completed reply", op.id);
  } else if (std::holds_alternative<InFlight>(*answer)) {
    journal_.Counted(Count::kInFlight);
    Require((life->state == State::kReserved || life->state == State::kReleased) &&
                now < life->lease_until,
            "in flight, but there is neither a live lease nor a pause", op.id);
  } else {
    journal_.Counted(Count::kOutcomeUnknown);
    const bool lapsed = life->state == State::kReserved && now >= life->lease_until &&
                        life->on_lease_expiry == LeaseExpiry::kRequireRecovery;
    Require(lapsed || life->state == State::kUnknown, "an outcome is unknown that is known", op.id);
    life->state = State::kUnknown;
  }
}

void Checker::OnGrant(const ReserveOp& op, const Reserved& grant, absl::Time now) {
  Life* const life = LifeOf(op.id, now);
  if (life != nullptr) {
    Require(CompareFingerprints(life->fingerprints, op.fingerprints) == FingerprintMatch::kSame,
            "another request is granted the record", op.id);
  }
  if (life != nullptr && grant.token == life->token) {
    Require(life->state == State::kReserved, "a grant is repeated that has ended", op.id);
    Require(op.request_token && op.request_token == life->request_token,
            "a grant is repeated for another request token", op.id);
    Require(grant.attempt == life->attempt, "a repeated grant has another attempt", op.id);
    if (now >= life->lease_until) life->lease_until = now + grant.lease_remaining;
    journal_.Counted(Count::kGrantRepeated);
    return;
  }
  Require(tokens_.insert(grant.token.ToString()).second, "a token is granted twice", op.id);
  if (life == nullptr) {
    OnFirstGrant(op, grant, now);
  } else {
    OnNextGrant(op, grant, *life, now);
  }
}

void Checker::OnFirstGrant(const ReserveOp& op, const Reserved& grant, absl::Time now) {
  History& history = histories_[op.id];
  Require(grant.attempt == 1, "a first grant is not attempt 1", op.id);
  if (!history.lives.empty()) {
    journal_.Counted(Count::kGrantedAfterExpiry);
    const std::optional<absl::Time> made = KeyTime(op.key);
    Require(!made || now - *made < window_, "a key runs again after its window", op.id);
  } else {
    journal_.Counted(Count::kFirstGrant);
  }
  Life life;
  life.attempt = 1;
  life.token = grant.token;
  life.request_token = op.request_token;
  life.lease_until = now + grant.lease_remaining;
  life.expires_at = grant.expires_at;
  life.fingerprints = op.fingerprints;
  life.on_lease_expiry = op.on_lease_expiry;
  history.lives.push_back(std::move(life));
}

void Checker::OnNextGrant(const ReserveOp& op, const Reserved& grant, Life& life, absl::Time now) {
  Require(grant.attempt > life.attempt, "attempts do not rise", op.id);
  Require(life.state != State::kCompleted, "a completed record is granted again", op.id);
  Require(
      life.state != State::kReleased || !op.request_token || op.request_token != life.request_token,
      "a released grant is given again to a late repeat", op.id);
  Require(life.state != State::kReleased || now >= life.lease_until,
          "a released record is granted before its pause is over", op.id);
  const bool lapsed = life.state == State::kReserved && now >= life.lease_until;
  Require(life.state != State::kReserved || lapsed, "two live leases", op.id);
  const bool open = life.state == State::kUnknown ||
                    (lapsed && life.on_lease_expiry == LeaseExpiry::kRequireRecovery);
  Require(open == grant.recovering && (!open || op.recover),
          "an unknown outcome is granted without recovery", op.id);
  const PreviousAttempt previous = open     ? PreviousAttempt::kOutcomeUnknown
                                   : lapsed ? PreviousAttempt::kLeaseExpired
                                            : PreviousAttempt::kReleased;
  Require(grant.previous_attempt == previous, "a grant says otherwise how the last attempt ended",
          op.id);
  if (grant.recovering) {
    journal_.Counted(Count::kRecovering);
  } else {
    journal_.Counted(lapsed ? Count::kTookOver : Count::kGrantedAfterRelease);
  }
  if (lapsed || open) histories_[op.id].excused = true;
  life.state = State::kReserved;
  life.attempt = grant.attempt;
  life.token = grant.token;
  life.request_token = op.request_token;
  life.lease_until = now + grant.lease_remaining;
  life.expires_at = grant.expires_at;
}

// The end of a reservation.

void Checker::OnComplete(const CompleteOp& op, const absl::StatusOr<Completion>& answer,
                         absl::Time now) {
  if (!answer.ok()) return journal_.Counted(Count::kTokenRefused);
  Life* const life = LifeOf(op.id, now);
  Require(life != nullptr && now < life->expires_at, "a forgotten record is completed", op.id);
  Require(life->token == op.token, "a stale token completes the record", op.id);
  if (life->state == State::kCompleted) {
    journal_.Counted(Count::kCompletionRepeated);
    return Require(*life->reply == op.reply, "a second reply is accepted", op.id);
  }
  Require(life->state != State::kReleased, "a released reservation completes", op.id);
  journal_.Counted(Count::kCompleted);
  if (now >= life->lease_until) journal_.Counted(Count::kCompletedLate);
  life->state = State::kCompleted;
  life->reply = op.reply;
}

void Checker::OnRelease(const ReleaseOp& op, const absl::Status& answer, absl::Time now) {
  if (!answer.ok()) return journal_.Counted(Count::kTokenRefused);
  Life* const life = LifeOf(op.id, now);
  Require(life != nullptr, "a forgotten record is released", op.id);
  Require(life->token == op.token, "a stale token releases the record", op.id);
  const State wanted = op.outcome_unknown ? State::kUnknown : State::kReleased;
  Require(life->state == State::kReserved || life->state == wanted, "what has ended is released",
          op.id);
  journal_.Counted(op.outcome_unknown ? Count::kReleasedUnknown : Count::kReleased);
  if (life->state == State::kReserved) {
    life->lease_until = std::min(now + op.pause, life->expires_at);
  }
  life->state = wanted;
}

void Checker::OnExtend(const ExtendOp& op, const absl::StatusOr<Extension>& answer,
                       absl::Time now) {
  if (!answer.ok()) return journal_.Counted(Count::kTokenRefused);
  Life* const life = LifeOf(op.id, now);
  Require(life != nullptr && now < life->expires_at, "a forgotten record is extended", op.id);
  Require(life->token == op.token, "a stale token extends the lease", op.id);
  Require(life->state == State::kReserved, "what has ended is extended", op.id);
  const absl::Time until = now + answer->lease_remaining;
  Require(until >= life->lease_until, "a lease is shortened", op.id);
  Require(until <= life->expires_at, "a lease outlives its record", op.id);
  life->lease_until = until;
  journal_.Counted(Count::kExtended);
}

void Checker::OnRecord(const RecordId& id, const absl::StatusOr<Record>& record, absl::Time now) {
  Life* const life = LifeOf(id, now);
  if (!record.ok()) {
    Require(ReasonOf(record.status()) == Reason::kRecordNotFound, "a record cannot be read", id);
    return Require(life == nullptr, "a record is gone before its time", id);
  }
  Require(life != nullptr, "a record is there that nobody reserved", id);
  Require(record->attempt == life->attempt, "a record has another attempt than was granted", id);
  if (life->state == State::kReserved && record->state == RecordState::kUnknown) {
    Require(now >= life->lease_until && life->on_lease_expiry == LeaseExpiry::kRequireRecovery,
            "an outcome becomes unknown while its attempt holds the record", id);
    life->state = State::kUnknown;
    journal_.Counted(Count::kMarkedUnknown);
  }
  const bool same =
      (life->state == State::kReserved && record->state == RecordState::kReserved) ||
      (life->state == State::kCompleted && record->state == RecordState::kCompleted) ||
      (life->state == State::kReleased && record->state == RecordState::kReleased) ||
      (life->state == State::kUnknown && record->state == RecordState::kUnknown);
  Require(same, "a record changed its state unseen", id);
  if (life->state == State::kCompleted) {
    Require(record->reply == life->reply, "a completed reply changed", id);
  }
}

void Checker::OnLost(const RecordId& id) {
  History& history = histories_[id];
  Require(!history.lives.empty() && history.lives.back().state == State::kReserved &&
              history.lives.back().attempt == 1,
          "more than a first reservation is lost", id);
  history.lives.pop_back();
  history.lost = true;
}

// Handlers and callers.

void Checker::OnEffect(const RecordId& id, std::uint32_t attempt, bool in_ledger) {
  History& history = histories_[id];
  journal_.Counted(Count::kEffect);
  Require(!history.lives.empty() || history.lost, "an effect without a grant", id);
  const bool one_life = history.lives.size() == 1;
  ++history.effects;
  const int of_attempt = ++history.effects_by_attempt[attempt];
  if (in_ledger) {
    ++history.ledger_effects;
    Require(history.ledger_effects == 1, "two effects in spite of the ledger", id);
  }
  if (history.lost) {
    return Require(in_ledger || history.effects == 1 || history.excused,
                   "two effects after a lost reservation, and no ledger decides", id);
  }
  if (!one_life) return;
  Require(attempt <= history.lives.back().attempt, "an effect of an attempt never granted", id);
  Require(of_attempt == 1, "an attempt has two effects", id);
  Require(history.effects == 1 || history.excused,
          "two effects, and no lease was overrun nor outcome left open", id);
}

void Checker::Excuse(const RecordId& id) { histories_[id].excused = true; }

void Checker::OnCommitted(const RecordId& id, const v1::Reply& reply) {
  History& history = histories_[id];
  Require(!history.committed.has_value(), "two replies in the ledger", id);
  history.committed = reply;
}

void Checker::OnReply(const RecordId& id, const std::string& request, const v1::Reply& reply) {
  History& history = histories_[id];
  if (history.lost && history.lives.size() <= 1) {
    const v1::Reply& first = history.given.emplace(request, reply).first->second;
    Require(IsSame(first, reply), "two callers got different replies", id);
  }
  const bool in_ledger = history.committed && IsSame(*history.committed, reply);
  const bool completed =
      in_ledger || std::any_of(history.lives.begin(), history.lives.end(), [&](const Life& life) {
        if (!life.reply) return false;
        const absl::StatusOr<v1::Reply> stored = DecodeReply(*life.reply);
        return stored.ok() && IsSame(*stored, reply);
      });
  Require(completed, "a caller got a reply that the store does not hold", id);
  const bool ok = reply.code() == 0;
  Require(!ok || reply.body().find(request) != std::string::npos,
          "a caller got the reply to another request", id);
}

void Checker::OnDoneWithLedger(const RecordId& id) {
  Require(histories_[id].ledger_effects == 1, "a reply is given without its effect", id);
}

}  // namespace idempotency::internal::simulation
