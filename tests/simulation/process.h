#ifndef IDEMPOTENCY_TESTS_SIMULATION_PROCESS_H_
#define IDEMPOTENCY_TESTS_SIMULATION_PROCESS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace idempotency::internal::simulation {

// Simulated time, in nanoseconds since the run began.
using Nanos = std::int64_t;

inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// One life of a simulated process: threads that end with it, and clocks of its own, which drift and
// jump. A killed one is simply never run again: the objects of its threads are not destroyed, as
// with SIGKILL. A restart is another Process.
class Process {
 public:
  // `drift_ppm`: by how much its monotonic clock is too fast; negative: slow.
  Process(std::string name, std::int64_t drift_ppm, Nanos wall_error)
      : name_(std::move(name)), drift_ppm_(drift_ppm), wall_error_(wall_error) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }
  void Kill() { alive_ = false; }

  // No thread of it runs before then: stopped, swapped out, collecting garbage.
  Nanos paused_until() const { return paused_until_; }
  void PauseUntil(Nanos when) { paused_until_ = std::max(paused_until_, when); }

  Nanos Monotonic(Nanos now) const { return kBoot + now + Drift(now); }
  Nanos Wall(Nanos now) const { return kEpoch + now + Drift(now) + wall_error_; }
  void JumpWall(Nanos by) { wall_error_ += by; }
  // When its monotonic clock will have reached `local`.
  Nanos WhenMonotonic(Nanos local) const { return Undrifted(local - kBoot); }
  Nanos WhenWall(Nanos local) const { return Undrifted(local - kEpoch - wall_error_); }

  // The start of the clocks of a run.
  static constexpr Nanos kBoot = 100'000 * kSecond;
  static constexpr Nanos kEpoch = 1'700'000'000 * kSecond;

 private:
  Nanos Drift(Nanos now) const { return now / 1'000'000 * drift_ppm_; }
  Nanos Undrifted(Nanos since) const {
    if (since > 1'000'000 * kSecond) return since;
    Nanos when = since - since / (1'000'000 + drift_ppm_) * drift_ppm_;
    // Drift() rounds: up to the first instant at which it has reached that time.
    while (when + Drift(when) < since) when += since - when - Drift(when);
    return when;
  }

  const std::string name_;
  const std::int64_t drift_ppm_;
  Nanos wall_error_;
  bool alive_ = true;
  Nanos paused_until_ = 0;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_PROCESS_H_
