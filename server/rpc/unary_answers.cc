#include "server/rpc/unary_answers.h"

#include "server/limits.h"

namespace idempotency::internal {

UnaryAnswer::~UnaryAnswer() {
  if (owner_ != nullptr) owner_->Remove(*this);
  if (host_ != nullptr) host_->fetch_sub(others_, std::memory_order_relaxed);
}

void UnaryAnswers::Add(UnaryAnswer& answer, Sent sent) {
  answer.owner_ = this;
  answer.call_ = &sent.call;
  answer.since_ = sent.now;
  answer.bytes_ = sent.bytes;
  answer.hold_ = std::move(sent.hold);
  answer.host_ = std::move(sent.host);
  answer.others_ = sent.others;
  if (answer.host_ != nullptr) answer.host_->fetch_add(sent.others, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  answer.place_ = begun_++;
  answers_.emplace_hint(answers_.end(), answer.place_, &answer);
}

void UnaryAnswers::Remove(UnaryAnswer& answer) {
  MutexLock lock(mutex_);
  while (answer.state_ == UnaryAnswer::State::kEnding) ended_.Wait(lock);
  answers_.erase(answer.place_);
}

void UnaryAnswers::AppendUnread(SteadyTime until, std::vector<UnreadAnswers>& all) {
  // Ended ones too, until they are gone: what they hold is on its way back already.
  ForEach([until, &all](const UnaryAnswer& answer) {
    if (answer.others_ > 0 && answer.since_ <= until) {
      all.push_back({answer.place_, answer.since_, answer.others_, answer.host_,
                     UnreadAnswers::Of::kUnaryCall});
    }
    return false;
  });
}

void UnaryAnswers::End(absl::FunctionRef<bool(std::uint64_t place)> ends) {
  ForEach([ends](const UnaryAnswer& answer) { return ends(answer.place_); });
}

void UnaryAnswers::EndStalled(SteadyTime now) {
  ForEach([now](const UnaryAnswer& answer) {
    const auto frames = 1 + answer.bytes_ / limits::kMaxAnswerFrameBytes;
    return now - answer.since_ >=
           absl::ToChronoNanoseconds(limits::kPeerTimeout * static_cast<double>(frames));
  });
}

void UnaryAnswers::ForEach(absl::FunctionRef<bool(const UnaryAnswer&)> ends) {
  std::uint64_t next = 0;
  bool more = true;
  while (more) {
    // They stay until they are ended.
    std::vector<UnaryAnswer*> ending;
    {
      MutexLock lock(mutex_);
      auto at = answers_.lower_bound(next);
      for (int i = 0; i < kPerHold && at != answers_.end(); ++i, ++at) {
        UnaryAnswer& answer = *at->second;
        next = at->first + 1;
        if (!ends(answer) || answer.state_ != UnaryAnswer::State::kUnread) continue;
        answer.state_ = UnaryAnswer::State::kEnding;
        ending.push_back(&answer);
      }
      more = at != answers_.end();
    }
    if (ending.empty()) continue;
    for (UnaryAnswer* const answer : ending) answer->call_->TryCancel();
    MutexLock lock(mutex_);
    for (UnaryAnswer* const answer : ending) answer->state_ = UnaryAnswer::State::kEnded;
    ended_.NotifyAll();
  }
}

}  // namespace idempotency::internal
