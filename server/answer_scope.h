#ifndef IDEMPOTENCY_SERVER_ANSWER_SCOPE_H_
#define IDEMPOTENCY_SERVER_ANSWER_SCOPE_H_

#include <memory>
#include <utility>
#include <vector>

namespace idempotency::internal {

// Stands around the answering of many operations on one thread. Whoever gets
// several of the answers may put off what it does once for all of them (taking a
// lock, starting a write) until the scope ends, which is as soon as the last
// answer was given: nothing ever waits for more of them.
//
// A scope within another one of the same thread does nothing: the outer one
// speaks. Not thread-safe.
class AnswerScope {
 public:
  // What somebody does at the end of a scope.
  class Gatherer {
   public:
    virtual ~Gatherer() = default;
    virtual void Flush() = 0;
  };

  AnswerScope();
  // Flushes the gatherers in the order in which they came.
  ~AnswerScope();
  AnswerScope(const AnswerScope&) = delete;
  AnswerScope& operator=(const AnswerScope&) = delete;

  // The one around the caller; nullptr outside of any.
  static AnswerScope* Current();

  // The gatherer that stands here for `owner`; nullptr if there is none yet.
  Gatherer* Find(const void* owner) const;
  void Add(const void* owner, std::unique_ptr<Gatherer> gatherer);

 private:
  const bool outermost_;
  std::vector<std::pair<const void*, std::unique_ptr<Gatherer>>> gatherers_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ANSWER_SCOPE_H_
