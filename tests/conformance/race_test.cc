// Threads race for few keys with batches; at most one wins each attempt.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "core/mutex.h"
#include "grpc_idempotency/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

constexpr int kThreads = 6;
constexpr int kKeys = 40;
constexpr int kBatch = 16;
// How often the operations of one call are repeated: each repeat waits for the row again.
constexpr int kMaxRepeatsOfACall = 8;
// The share of a test's calls that may need a repeat: one in this many.
constexpr int kCallsPerRepeat = 10;

// IDEMPOTENCY_RACE_RESERVATIONS: how many, over each store (CONTRIBUTING.md).
int Reservations(const StoreUnderTest& store) {
  int reservations = store.racing_reservations;
  const char* const wanted = std::getenv("IDEMPOTENCY_RACE_RESERVATIONS");
  if (wanted != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(wanted, &reservations)) << wanted;
  }
  return reservations;
}

// The winner of each attempt of each record. Thread-safe.
class Winners {
 public:
  void Add(const RecordId& record, const Reserved& reserved) {
    MutexLock lock(mutex_);
    const bool first = tokens_.try_emplace({record, reserved.attempt}, reserved.token).second;
    if (!first) twice_ += 1;
    highest_[record] = std::max(highest_[record], reserved.attempt);
  }
  // Grants beyond the first one of an attempt.
  int twice() {
    MutexLock lock(mutex_);
    return twice_;
  }
  std::size_t count() {
    MutexLock lock(mutex_);
    return tokens_.size();
  }
  // The sum over all records of the highest attempt.
  std::size_t highest() {
    MutexLock lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [record, attempt] : highest_) sum += attempt;
    return sum;
  }

 private:
  Mutex mutex_;
  std::map<std::pair<RecordId, std::uint32_t>, Uuid> tokens_ ABSL_GUARDED_BY(mutex_);
  std::map<RecordId, std::uint32_t> highest_ ABSL_GUARDED_BY(mutex_);
  int twice_ ABSL_GUARDED_BY(mutex_) = 0;
};

class RaceTest : public StoreTest {
 protected:
  // One thread: batches over a random choice of the keys. The thread releases or completes the
  // attempts that it wins, or leaves them to be taken over.
  void RunRacer(unsigned seed, int reservations) {
    std::mt19937 random(seed);
    std::vector<ReserveOp> keys = keys_;
    for (int done = 0; done < reservations; done += kBatch) {
      std::shuffle(keys.begin(), keys.end(), random);
      std::vector<ReserveOp> batch(keys.begin(), keys.begin() + kBatch);
      for (ReserveOp& op : batch) op.request_token = Uuid::Random();
      std::vector<ReleaseOp> released;
      const auto answers = Persist(store().Reserve(batch), batch, &RecordStore::Reserve);
      for (int i = 0; i < kBatch; ++i) {
        if (!answers[i].ok()) {
          errors_ += 1;
        } else if (const auto* reserved = std::get_if<Reserved>(&*answers[i])) {
          winners_.Add(batch[i].id, *reserved);
          // Half stay reserved, and their leases run out.
          if (random() % 2 == 0) {
            released.push_back({batch[i].key, batch[i].id, reserved->token, "", false});
          }
        }
      }
      for (const absl::Status& status :
           Persist(store().Release(released), released, &RecordStore::Release)) {
        // Lost is right: the lease may have run out and another thread may have taken over.
        if (!status.ok() && ReasonOf(status) != Reason::kReservationLost) errors_ += 1;
      }
      if (random() % 4 == 0) LetLeasesRunOut();
    }
  }

  // The answers to `ops`, after those that STORE_UNAVAILABLE left open were repeated with the same
  // tokens: on a busy machine another session holds a row for too long.
  template <typename Op, typename Answer>
  std::vector<Answer> Persist(std::vector<Answer> answers, const std::vector<Op>& ops,
                              std::vector<Answer> (RecordStore::*method)(absl::Span<const Op>)) {
    calls_ += 1;
    for (int repeat = 0; repeat < kMaxRepeatsOfACall; ++repeat) {
      std::vector<std::size_t> open;
      std::vector<Op> again;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ReasonOf(PlainStatus(answers[i])) != Reason::kStoreUnavailable) continue;
        open.push_back(i);
        again.push_back(ops[i]);
      }
      if (open.empty()) break;
      repeats_ += 1;
      std::vector<Answer> repeated = (store().*method)(again);
      for (std::size_t i = 0; i < open.size(); ++i) answers[open[i]] = std::move(repeated[i]);
    }
    return answers;
  }

  void ExpectFewRepeats() const {
    EXPECT_LE(repeats_, calls_ / kCallsPerRepeat);
    RecordProperty("repeats", repeats_);
  }

  void LetLeasesRunOut() {
    MutexLock lock(clock_mutex_);
    Advance(limits::kDefaultLease);
  }

  std::vector<ReserveOp> keys_;
  Winners winners_;
  std::atomic<int> errors_{0};
  std::atomic<int> calls_{0};
  std::atomic<int> repeats_{0};
  // A harness is used from one thread at a time.
  Mutex clock_mutex_;
};
IDEMPOTENCY_FOR_EVERY_STORE(RaceTest);

TEST_P(RaceTest, EveryAttemptHasExactlyOneWinner) {
  for (int i = 0; i < kKeys; ++i) {
    keys_.push_back(OpFor(absl::StrCat("hot-", i)));
    // Leases run out thousands of times; the records do not.
    keys_.back().retention = limits::kMaxRetention;
  }
  std::vector<std::thread> racers;
  for (int i = 0; i < kThreads; ++i) {
    racers.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), "racer");
      RunRacer(static_cast<unsigned>(i), Reservations(GetParam()) / kThreads);
    });
  }
  for (std::thread& racer : racers) racer.join();
  EXPECT_EQ(errors_, 0);
  ExpectFewRepeats();
  EXPECT_EQ(winners_.twice(), 0) << "an attempt was granted twice";
  EXPECT_EQ(winners_.count(), winners_.highest()) << "an attempt was skipped";
  EXPECT_GT(winners_.count(), static_cast<std::size_t>(kKeys));
  RecordProperty("attempts", static_cast<int>(winners_.count()));
}

TEST_P(RaceTest, OneOfManyFirstReservationsWins) {
  // New keys only: every thread reserves the same ones in the same order, and completes those that
  // it wins under its own name.
  const int rounds = Reservations(GetParam()) / (kThreads * kBatch * 4);
  std::vector<std::thread> racers;
  std::atomic<int> won{0};
  for (int thread = 0; thread < kThreads; ++thread) {
    racers.emplace_back([&, thread] {
      pthread_setname_np(pthread_self(), "racer");
      std::vector<CompleteOp> completions;
      for (int round = 0; round < rounds; ++round) {
        std::vector<ReserveOp> batch;
        for (int i = 0; i < kBatch; ++i) {
          batch.push_back(OpFor(absl::StrCat(round, "/", i)));
          batch.back().request_token = Uuid::Random();
        }
        // With the grants of the round before, as in a busy service.
        SharedAnswers answers = store().CompleteAndReserve(completions, batch);
        answers.completions =
            Persist(std::move(answers.completions), completions, &RecordStore::Complete);
        answers.verdicts = Persist(std::move(answers.verdicts), batch, &RecordStore::Reserve);
        for (const auto& completion : answers.completions) {
          if (!completion.ok()) errors_ += 1;
        }
        completions.clear();
        for (int i = 0; i < kBatch; ++i) {
          const auto& verdict = answers.verdicts[i];
          if (!verdict.ok()) {
            errors_ += 1;
          } else if (const auto* reserved = std::get_if<Reserved>(&*verdict)) {
            winners_.Add(batch[i].id, *reserved);
            won += 1;
            completions.push_back(
                {batch[i].key, batch[i].id, reserved->token, ReplyWith(absl::StrCat(thread))});
          }
        }
      }
      for (const auto& completion :
           Persist(store().Complete(completions), completions, &RecordStore::Complete)) {
        if (!completion.ok()) errors_ += 1;
      }
    });
  }
  for (std::thread& racer : racers) racer.join();
  EXPECT_EQ(errors_, 0);
  ExpectFewRepeats();
  EXPECT_EQ(winners_.twice(), 0);
  EXPECT_EQ(won, rounds * kBatch);
}

}  // namespace
}  // namespace idempotency::internal
