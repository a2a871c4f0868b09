#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_BATCH_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_BATCH_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "core/fatal.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/connection/connection.h"

namespace idempotency::internal {

// A batch of operations during several statements, and the answers so far.
// Operations are identified by their index. Thread-compatible.
template <typename Op, typename Answer>
class PostgresBatch {
 public:
  using Indices = std::vector<std::size_t>;

  explicit PostgresBatch(absl::Span<const Op> ops)
      : ops_(ops), answers_(ops.size()), all_(ops.size()) {
    std::iota(all_.begin(), all_.end(), 0);
    std::sort(all_.begin(), all_.end(),
              [ops](std::size_t a, std::size_t b) { return ops[a].id < ops[b].id; });
  }

  std::size_t size() const { return ops_.size(); }
  const Op& op(std::size_t index) const { return ops_[index]; }
  // The operation on the record `id`, which must be in the batch.
  std::size_t IndexOf(const RecordId& id) const {
    const auto found = std::lower_bound(
        all_.begin(), all_.end(), id,
        [this](std::size_t index, const RecordId& other) { return ops_[index].id < other; });
    Require(found != all_.end() && ops_[*found].id == id, "a statement returned another record");
    return *found;
  }
  bool answered(std::size_t index) const { return answers_[index].has_value(); }

  void Settle(std::size_t index, Answer answer) { answers_[index] = std::move(answer); }
  // Fails an operation whose row another connection has locked.
  void FailLocked(std::size_t index);
  // The rows of those.
  const std::vector<RecordId>& locked() const { return locked_; }
  void FailAll(const Indices& indices, const absl::Status& status) {
    for (const std::size_t index : indices) answers_[index] = Answer(status);
  }

  // In the order in which every statement must access them: by id.
  const Indices& All() const { return all_; }
  // Those of `indices` without an answer yet, in the same order.
  Indices Unanswered(const Indices& indices) const {
    Indices left;
    left.reserve(indices.size());
    std::copy_if(indices.begin(), indices.end(), std::back_inserter(left),
                 [this](std::size_t index) { return !answered(index); });
    return left;
  }

  // The same indices in the order of the operations: of replies that are read up to a limit, the
  // first operation's is read.
  static Indices InOrder(Indices indices) {
    std::sort(indices.begin(), indices.end());
    return indices;
  }

  // Every operation must have been answered.
  std::vector<Answer> Take() && {
    std::vector<Answer> answers;
    answers.reserve(answers_.size());
    for (std::optional<Answer>& answer : answers_) answers.push_back(*std::move(answer));
    return answers;
  }

 private:
  absl::Span<const Op> ops_;
  std::vector<std::optional<Answer>> answers_;
  Indices all_;
  std::vector<RecordId> locked_;
};

// How often a record is read again before its operation fails. Each further
// read means that another caller changed it.
inline constexpr int kMaxPostgresRounds = 16;

// How often a batch waits for a lock in vain before its remaining operations fail:
// PostgresOptions::lock_timeout times this bounds the delay by locks.
inline constexpr int kMaxPostgresLockWaits = PostgresConnection::kMaxLockWaits;

// In how many parts a batch is tried while all of them meet media failures: an outage of the
// server's storage costs no more. Beside a bad page, of which a batch seldom has more than a few
// rows, one of the first parts succeeds.
inline constexpr std::size_t kMaxPostgresUnreadParts = 16;

// The caller's error for a failed statement.
absl::Status ToCallerStatus(const absl::Status& failure);

// The caller's error for a record that others changed in every round.
absl::Status KeepsChanging();

// Whether a statement timed out waiting for another connection's lock.
inline bool IsLocked(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDeadlineExceeded;
}

// Whether a statement of its own left a row to a later try: that row or others were locked.
inline bool IsLeftAlone(const absl::Status& status) {
  return IsLocked(status) || absl::IsCancelled(status);
}

template <typename Op, typename Answer>
void PostgresBatch<Op, Answer>::FailLocked(std::size_t index) {
  locked_.push_back(ops_[index].id);
  Settle(index, Answer(ToCallerStatus(absl::DeadlineExceededError("locked"))));
}

// Runs `run`, an absl::Status(Part& part), on `all`, and on the halves of what each run leaves in
// its part, a std::vector, which is nothing of a part of one: where one of 256 fails the statement
// of all, it is found with 16 further ones. Both halves run before their own halves. Returns what
// is left if the first kMaxPostgresUnreadParts all ended with media failures.
template <typename Part, typename Run>
Part RunByHalves(Part all, const Run& run) {
  std::vector<Part> parts;
  if (!all.empty()) parts.push_back(std::move(all));
  bool is_outage = true;
  std::size_t next = 0;
  while (next < parts.size() && !(is_outage && next == kMaxPostgresUnreadParts)) {
    Part part = std::move(parts[next++]);
    is_outage = IsMediaFailure(run(part)) && is_outage;
    if (part.size() < 2) continue;
    const auto middle = part.begin() + static_cast<std::ptrdiff_t>(part.size() / 2);
    parts.emplace_back(part.begin(), middle);
    parts.emplace_back(middle, part.end());
  }
  Part left;
  for (; next < parts.size(); ++next) {
    left.insert(left.end(), parts[next].begin(), parts[next].end());
  }
  return left;
}

// Lets `round` answer operations of `pending` until none is left, or the statement of all fails for
// a reason that one of them may have: then they are left. Returns how the last statement ended.
template <typename Op, typename Answer, typename Round, typename SetAside>
absl::Status RunPart(PostgresBatch<Op, Answer>& batch, std::vector<std::size_t>& pending,
                     Round& round, SetAside& set_aside, int& lock_waits) {
  const auto fail = [&](const absl::Status& failure) {
    batch.FailAll(std::exchange(pending, {}), ToCallerStatus(failure));
    return failure;
  };
  for (int i = 0; i < kMaxPostgresRounds && !pending.empty(); ++i) {
    absl::Status status = round(pending);
    pending = batch.Unanswered(pending);
    if (pending.empty()) return status;
    if (status.ok()) continue;
    if (IsLocked(status) && --lock_waits > 0) {
      const absl::Status looked = set_aside(pending);
      const std::size_t all = pending.size();
      pending = batch.Unanswered(pending);
      if (!looked.ok() && !IsUnreadable(looked)) return fail(looked);
      if (pending.size() < all) continue;
      if (!looked.ok()) status = looked;
    } else if (IsLocked(status) || (absl::IsUnavailable(status) && !IsMediaFailure(status))) {
      return fail(status);
    }
    return pending.size() == 1 ? fail(status) : status;
  }
  return pending.empty() ? absl::OkStatus() : fail(KeepsChanging());
}

// Lets `round`, an absl::Status(const Indices& pending), answer operations until
// none is left. Where a value or an unreadable row of one operation fails the statement of
// all, they continue separately: only that one fails. Where a row is locked, `set_aside`, an
// absl::Status(const Indices& pending), fails the operations on locked rows, and
// the others continue; if it finds none (a row that is not committed yet) they
// continue separately too. `lock_waits` is the remaining number of such waits.
// Everything is answered afterwards.
template <typename Op, typename Answer, typename Round, typename SetAside>
void RunRounds(PostgresBatch<Op, Answer>& batch, std::vector<std::size_t> pending, Round& round,
               SetAside& set_aside, int& lock_waits) {
  absl::Status last;
  const std::vector<std::size_t> left =
      RunByHalves(std::move(pending), [&](std::vector<std::size_t>& part) {
        return last = RunPart(batch, part, round, set_aside, lock_waits);
      });
  if (!left.empty()) batch.FailAll(left, ToCallerStatus(last));
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_BATCH_H_
