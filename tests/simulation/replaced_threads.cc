// The threads, the clocks and the random numbers of a simulation, in place of the system's. The
// linker takes these functions, which are in the program itself, before those of the C library,
// OpenSSL and libstdc++: for the product, linked unchanged, and for the libraries that it calls. So
// no part of the product is written for the simulation, and none is omitted because it waits.
//
// A program that links this file has no real threads. Outside of a run mutexes are taken without
// waiting and clocks have the real time.
#include <dlfcn.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "absl/base/config.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "tests/simulation/scheduler.h"

namespace idempotency::internal::simulation {
namespace {

// How often a thread that is about to take a lock, and holds none, yields to others first.
constexpr std::uint64_t kOneYieldIn = 50;

struct Waiter {
  Fiber* fiber;
  std::uint64_t wait;
};
using Waiters = std::vector<Waiter>;

// The waiters for a mutex or a condition. Never iterated: its order means nothing.
std::unordered_map<const void*, Waiters>& WaitersByAddress() {
  static auto& waiters = *new std::unordered_map<const void*, Waiters>();
  return waiters;
}

// The word of the C library's mutex that shows whether it is taken.
int& TakenWord(pthread_mutex_t* mutex) { return mutex->__data.__lock; }

bool IsRecursive(const pthread_mutex_t* mutex) {
  return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}

void MaybeYield(Scheduler& scheduler) {
  if (scheduler.fiber()->locks > 0 || scheduler.random().Below(kOneYieldIn) != 0) return;
  scheduler.Sleep(0);
}

void Lock(pthread_mutex_t* mutex) {
  Scheduler* const scheduler = Scheduler::Current();
  Fiber* const self = scheduler == nullptr ? nullptr : scheduler->fiber();
  if (self == nullptr) {
    ++TakenWord(mutex);
    return;
  }
  MaybeYield(*scheduler);
  if (IsRecursive(mutex) && TakenWord(mutex) > 0 && mutex->__data.__owner == self->id) {
    ++TakenWord(mutex);
    return;
  }
  while (TakenWord(mutex) > 0) {
    WaitersByAddress()[mutex].push_back({self, scheduler->PrepareWait()});
    scheduler->Wait(Scheduler::kForever);
  }
  TakenWord(mutex) = 1;
  mutex->__data.__owner = self->id;
  ++self->locks;
}

void Unlock(pthread_mutex_t* mutex) {
  Scheduler* const scheduler = Scheduler::Current();
  Fiber* const self = scheduler == nullptr ? nullptr : scheduler->fiber();
  if (--TakenWord(mutex) > 0 || self == nullptr) return;
  --self->locks;
  auto& all = WaitersByAddress();
  const auto found = all.find(mutex);
  if (found == all.end()) return;
  const Waiters waiters = std::move(found->second);
  all.erase(found);
  for (const Waiter& waiter : waiters) scheduler->Wake(waiter.fiber, waiter.wait);
}

// 0, or ETIMEDOUT.
int Await(const void* condition, pthread_mutex_t* mutex, Nanos until) {
  Scheduler* const scheduler = Scheduler::Current();
  // No thread could ever wake it.
  if (scheduler == nullptr || scheduler->fiber() == nullptr) std::abort();
  WaitersByAddress()[condition].push_back({scheduler->fiber(), scheduler->PrepareWait()});
  Unlock(mutex);
  const bool woken = scheduler->Wait(until);
  Lock(mutex);
  return woken ? 0 : ETIMEDOUT;
}

void Notify(const void* condition, bool everybody) {
  Scheduler* const scheduler = Scheduler::Current();
  if (scheduler == nullptr) return;
  auto& all = WaitersByAddress();
  const auto found = all.find(condition);
  if (found == all.end()) return;
  Waiters& waiters = found->second;
  while (!waiters.empty()) {
    // Any of them, as in POSIX.
    const std::size_t drawn = scheduler->random().Below(waiters.size());
    const Waiter waiter = waiters[drawn];
    waiters.erase(waiters.begin() + static_cast<std::ptrdiff_t>(drawn));
    const bool still = waiter.fiber->waiting && waiter.fiber->wait == waiter.wait;
    scheduler->Wake(waiter.fiber, waiter.wait);
    if (still && !everybody) break;
  }
  if (waiters.empty()) all.erase(found);
}

Nanos ToNanos(const timespec& time) {
  return static_cast<Nanos>(time.tv_sec) * kSecond + time.tv_nsec;
}

Nanos WhenLocal(clockid_t clock, const timespec& local) {
  const Process* const process = Scheduler::Current()->process();
  static const Process& world = *new Process("world", 0, 0);
  const Process& whose = process == nullptr ? world : *process;
  return clock == CLOCK_MONOTONIC ? whose.WhenMonotonic(ToNanos(local))
                                  : whose.WhenWall(ToNanos(local));
}

void Fill(void* buffer, std::size_t bytes) {
  auto* const to = static_cast<unsigned char*>(buffer);
  for (std::size_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<unsigned char>(Scheduler::Current()->product_random().Next());
  }
}

}  // namespace
}  // namespace idempotency::internal::simulation

using idempotency::internal::simulation::Fiber;
using idempotency::internal::simulation::Nanos;
using idempotency::internal::simulation::Scheduler;

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t*, void* (*start)(void*),
                   void* argument) noexcept {
  if (Scheduler::Current() == nullptr) std::abort();
  *thread = Scheduler::Current()->StartThread([start, argument] { start(argument); });
  return 0;
}

int pthread_join(pthread_t thread, void**) {
  Scheduler::Current()->Join(thread);
  return 0;
}

int pthread_setname_np(pthread_t, const char*) noexcept { return 0; }

// The one-time work of the program (a library's tables, for example) is done without a switch: a
// fiber that yielded in the middle, of a process that is then killed, would leave it half done for
// all others.
int pthread_once(pthread_once_t* control, void (*routine)()) {
  static const auto once =
      reinterpret_cast<int (*)(pthread_once_t*, void (*)())>(dlsym(RTLD_NEXT, "pthread_once"));
  Scheduler* const scheduler = Scheduler::Current();
  Fiber* const self = scheduler == nullptr ? nullptr : scheduler->fiber();
  if (self == nullptr) return once(control, routine);
  ++self->locks;
  const int done = once(control, routine);
  --self->locks;
  return done;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  idempotency::internal::simulation::Lock(mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (idempotency::internal::simulation::TakenWord(mutex) > 0) return EBUSY;
  idempotency::internal::simulation::Lock(mutex);
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  idempotency::internal::simulation::Unlock(mutex);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return idempotency::internal::simulation::Await(condition, mutex, Scheduler::kForever);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  return idempotency::internal::simulation::Await(
      condition, mutex, idempotency::internal::simulation::WhenLocal(clock, *until));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, until);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  idempotency::internal::simulation::Notify(condition, /*everybody=*/false);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  idempotency::internal::simulation::Notify(condition, /*everybody=*/true);
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const Scheduler* const scheduler = Scheduler::Current();
  if (scheduler == nullptr || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) {
    return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  }
  const auto* const process = scheduler->process();
  const Nanos now = scheduler->now();
  Nanos local =
      now + (clock == CLOCK_MONOTONIC ? idempotency::internal::simulation::Process::kBoot
                                      : idempotency::internal::simulation::Process::kEpoch);
  if (process != nullptr) {
    local = clock == CLOCK_MONOTONIC ? process->Monotonic(now) : process->Wall(now);
  }
  time->tv_sec = local / idempotency::internal::simulation::kSecond;
  time->tv_nsec = local % idempotency::internal::simulation::kSecond;
  return 0;
}

}  // extern "C"

// abseil's wall clock counts processor cycles between two reads of the system's.
namespace absl {
ABSL_NAMESPACE_BEGIN

std::int64_t GetCurrentTimeNanos() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

Time Now() { return FromUnixNanos(GetCurrentTimeNanos()); }

ABSL_NAMESPACE_END
}  // namespace absl

extern "C" {

// OpenSSL's: the source of the product's tokens.
int RAND_bytes(unsigned char* buffer, int bytes) {
  if (Scheduler::Current() == nullptr) std::abort();
  idempotency::internal::simulation::Fill(buffer, static_cast<std::size_t>(bytes));
  return 1;
}

// The source of the seeds of abseil's generators.
int getentropy(void* buffer, size_t bytes) {
  if (Scheduler::Current() == nullptr) std::abort();
  idempotency::internal::simulation::Fill(buffer, bytes);
  return 0;
}

// std::random_device::operator().
unsigned RandomDeviceValue(void*) __asm__("_ZNSt13random_device9_M_getvalEv");
unsigned RandomDeviceValue(void*) {
  return static_cast<unsigned>(Scheduler::Current()->product_random().Next());
}

}  // extern "C"
