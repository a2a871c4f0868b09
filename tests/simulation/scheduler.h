#ifndef IDEMPOTENCY_TESTS_SIMULATION_SCHEDULER_H_
#define IDEMPOTENCY_TESTS_SIMULATION_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/simulation/fiber.h"
#include "tests/simulation/process.h"
#include "tests/simulation/random.h"

namespace idempotency::internal::simulation {

// Decides the next event: a queue of events ordered by simulated time, those of one instant by a
// seeded draw. Only waits take time. There is one at a time (replaced_threads.cc finds it), on one
// thread; a seed is one run, always the same.
class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // nullptr outside of a run.
  static Scheduler* Current() { return current_; }

  Nanos now() const { return now_; }
  // For the environment's draws: faults, delays, plans.
  Random& random() { return random_; }
  // For the random numbers that the product draws.
  Random& product_random() { return product_random_; }

  // Runs `task` at `when`, on a fiber of `process`, unless that has ended by then.
  void At(Nanos when, Process* process, std::function<void()> task);
  void After(Nanos delay, Process* process, std::function<void()> task) {
    At(now_ + delay, process, std::move(task));
  }

  // Runs events until `done` returns true. False if there were none left, or more than
  // `max_events`.
  bool Run(const std::function<bool()>& done, std::uint64_t max_events);
  std::uint64_t events() const { return events_; }
  // Over every event so far: two runs of a seed have the same.
  std::uint64_t digest() const { return digest_; }
  void Mix(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001B3; }

  // For fibers. The current one, nullptr on the scheduler's own stack.
  Fiber* fiber() const { return running_; }
  Process* process() const { return running_ == nullptr ? nullptr : running_->process; }
  void Sleep(Nanos duration);

  // The parts of waiting: announce the wait, pass its number to the fiber that is to wake it, then
  // yield.
  std::uint64_t PrepareWait();
  // False if `until` (kForever: never) came before Wake().
  bool Wait(Nanos until);
  // Does nothing if that wait is over.
  void Wake(Fiber* fiber, std::uint64_t wait);
  static constexpr Nanos kForever = INT64_MAX;

  // Threads.
  std::uint64_t StartThread(std::function<void()> body);
  void Join(std::uint64_t thread);

 private:
  struct Event {
    Nanos at;
    std::uint64_t tie;
    std::uint64_t serial;
    Process* process;
    // One of these: a task to begin, or a fiber to continue.
    std::function<void()> task;
    Fiber* fiber = nullptr;
    // For the end of a wait that may be over already; 0 if it need not be checked.
    std::uint64_t wait = 0;
  };
  struct Waiter {
    Fiber* fiber;
    std::uint64_t wait;
  };

  static bool Later(const Event& a, const Event& b);
  void Push(Event event);
  Event Pop();
  static void GiveStack(Fiber& fiber);
  Fiber* NewFiber(Process* process, std::function<void()> body);
  void SwitchTo(Fiber* fiber);
  void BackToScheduler();
  static void Enter(unsigned high, unsigned low);

  static Scheduler* current_;

  Random random_;
  Random product_random_;
  Random ties_;
  Nanos now_ = 0;
  std::uint64_t serial_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t digest_ = 0xCBF29CE484222325;
  std::vector<Event> queue_;
  ucontext_t main_{};
  Fiber* running_ = nullptr;
  int fibers_ = 0;
  std::vector<Fiber*> free_;
  std::uint64_t last_thread_ = 0;
  // By thread: the fibers that wait for its end. Ended ones are removed.
  std::unordered_map<std::uint64_t, std::vector<Waiter>> threads_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_SCHEDULER_H_
