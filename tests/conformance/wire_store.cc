#include "tests/conformance/wire_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "core/mutex.h"
#include "tests/conformance/wire_operation.h"

namespace idempotency::internal {
namespace {

// Only calls that hang take this long, on any busy machine.
constexpr std::chrono::seconds kPatience{120};

// The answers to the calls of one batch. Thread-safe.
template <typename Response>
class Responses {
 public:
  explicit Responses(std::size_t calls) : left_(calls), responses_(calls) {}

  void Put(std::size_t index, absl::StatusOr<Response> response) {
    MutexLock lock(mutex_);
    EXPECT_FALSE(responses_[index].has_value()) << "a call was answered twice";
    if (!responses_[index].has_value()) --left_;
    responses_[index] = std::move(response);
    if (left_ == 0) all_.NotifyAll();
  }

  std::vector<absl::StatusOr<Response>> Take(Connection::Deadline until) {
    MutexLock lock(mutex_);
    while (left_ > 0 && all_.WaitUntil(lock, until)) {
    }
    EXPECT_EQ(left_, 0u) << "calls were not answered";
    std::vector<absl::StatusOr<Response>> taken;
    for (std::optional<absl::StatusOr<Response>>& response : responses_) {
      taken.push_back(response ? *std::move(response)
                               : absl::StatusOr<Response>(absl::InternalError("no answer")));
    }
    return taken;
  }

 private:
  Mutex mutex_;
  // Every call was answered.
  CondVar all_;
  std::size_t left_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<absl::StatusOr<Response>>> responses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

template <typename Answer, typename Op, typename Request, typename Response>
std::vector<Answer> WireStore::SendAll(absl::Span<const Op> ops,
                                       void (Connection::*method)(const Request&,
                                                                  Connection::Deadline,
                                                                  Connection::Callback<Response>)) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // Shared with the callbacks: a late one still finds it.
  const auto responses = std::make_shared<Responses<Response>>(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    (connection_.*method)(RequestOf(ops[i]), deadline,
                          [responses, i](absl::StatusOr<Response> response) {
                            responses->Put(i, std::move(response));
                          });
  }
  const auto taken = responses->Take(deadline + kPatience);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    answers.push_back(taken[i].ok() ? AnswerTo(ops[i], *taken[i]) : Answer(taken[i].status()));
  }
  return answers;
}

std::vector<absl::StatusOr<Verdict>> WireStore::Reserve(absl::Span<const ReserveOp> ops) {
  for (const ReserveOp& op : ops) {
    behind_.Announce(op.key, op.id);
    behind_.AnnounceWindow(op.key, op.window);
    behind_.AnnounceOnlyExisting(op.key, op.only_existing);
  }
  auto answers = SendAll<absl::StatusOr<Verdict>>(ops, &Connection::Reserve);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    absl::StatusOr<Verdict>& answer = answers[i];
    if (auto* const unknown = answer.ok() ? std::get_if<OutcomeUnknown>(&*answer) : nullptr) {
      unknown->marked = behind_.MarkedUnknown(RecordIdFor(ops[i].key));
    }
    Reserved* const reserved = answer.ok() ? std::get_if<Reserved>(&*answer) : nullptr;
    if (reserved == nullptr) continue;
    const auto marks = behind_.MarksOfGrant(reserved->token);
    EXPECT_TRUE(marks.has_value()) << "a token that the store did not give";
    if (!marks.has_value()) continue;
    reserved->took_over = marks->took_over;
    reserved->after_expiry = marks->after_expiry;
    reserved->repeated = marks->repeated;
  }
  return answers;
}

std::vector<absl::StatusOr<Completion>> WireStore::Complete(absl::Span<const CompleteOp> ops) {
  for (const CompleteOp& op : ops) behind_.Announce(op.key, op.id);
  auto answers = SendAll<absl::StatusOr<Completion>>(ops, &Connection::Complete);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!answers[i].ok()) continue;
    const auto marks = behind_.MarksOfCompletion(ops[i].token);
    EXPECT_TRUE(marks.has_value()) << "a completion that the store did not make";
    if (!marks.has_value()) continue;
    answers[i]->lease_overrun = marks->lease_overrun;
    answers[i]->repeated = marks->repeated;
  }
  return answers;
}

std::vector<absl::Status> WireStore::Release(absl::Span<const ReleaseOp> ops) {
  for (const ReleaseOp& op : ops) behind_.Announce(op.key, op.id);
  return SendAll<absl::Status>(ops, &Connection::Release);
}

std::vector<absl::StatusOr<Extension>> WireStore::Extend(absl::Span<const ExtendOp> ops) {
  for (const ExtendOp& op : ops) behind_.Announce(op.key, op.id);
  return SendAll<absl::StatusOr<Extension>>(ops, &Connection::Extend);
}

std::vector<absl::StatusOr<Record>> WireStore::Get(absl::Span<const GetOp> ops) {
  for (const GetOp& op : ops) {
    if (op.key) behind_.Announce(*op.key, op.id);
  }
  return SendAll<absl::StatusOr<Record>>(ops, &Connection::Get);
}

}  // namespace idempotency::internal
