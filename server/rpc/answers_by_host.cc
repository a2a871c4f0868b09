#include "server/rpc/answers_by_host.h"

namespace idempotency::internal {

std::shared_ptr<HostAnswers> AnswersByHost::Of(const std::string& host) {
  if (host.empty()) return nullptr;
  MutexLock lock(mutex_);
  std::weak_ptr<HostAnswers>& known = hosts_[host];
  if (std::shared_ptr<HostAnswers> answers = known.lock()) return answers;
  std::shared_ptr<HostAnswers> answers(std::make_unique<HostAnswers>(0).release(),
                                       [this, host](HostAnswers* unused) {
                                         std::unique_ptr<HostAnswers>(unused).reset();
                                         Forget(host);
                                       });
  known = answers;
  return answers;
}

void AnswersByHost::Forget(const std::string& host) {
  MutexLock lock(mutex_);
  const auto known = hosts_.find(host);
  // Another call may have begun since.
  if (known != hosts_.end() && known->second.expired()) hosts_.erase(known);
}

std::size_t AnswersByHost::hosts() const {
  MutexLock lock(mutex_);
  return hosts_.size();
}

}  // namespace idempotency::internal
