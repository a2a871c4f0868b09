#ifndef IDEMPOTENCY_SERVER_QUEUE_ANSWER_BATCH_SCOPE_H_
#define IDEMPOTENCY_SERVER_QUEUE_ANSWER_BATCH_SCOPE_H_

#include <memory>
#include <utility>
#include <vector>

namespace idempotency::internal {

// Encloses the answering of many operations on one thread. A receiver of several
// answers may defer its common work (taking a lock, starting a write) until the
// scope ends, which is right after the last answer: no answer waits for further
// ones.
//
// A scope within another one of the same thread does nothing: the outer one
// applies. Not thread-safe.
class AnswerBatchScope {
 public:
  // An action at the end of a scope.
  class Flushable {
   public:
    virtual ~Flushable() = default;
    virtual void Flush() = 0;
  };

  AnswerBatchScope();
  // Flushes the flushables in the order in which they were added.
  ~AnswerBatchScope();
  AnswerBatchScope(const AnswerBatchScope&) = delete;
  AnswerBatchScope& operator=(const AnswerBatchScope&) = delete;

  // The scope around the caller; nullptr outside of any scope.
  static AnswerBatchScope* Current();

  // The flushable of `owner` here; nullptr if there is none yet.
  Flushable* Find(const void* owner) const;
  void Add(const void* owner, std::unique_ptr<Flushable> flushable);

 private:
  const bool outermost_;
  std::vector<std::pair<const void*, std::unique_ptr<Flushable>>> flushables_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_ANSWER_BATCH_SCOPE_H_
