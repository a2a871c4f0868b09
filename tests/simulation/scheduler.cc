#include "tests/simulation/scheduler.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace idempotency::internal::simulation {
namespace {

// Mapped, and so allocated, only as far as a fiber uses it.
constexpr std::size_t kStackBytes = 512 * 1024;

}  // namespace

Scheduler* Scheduler::current_ = nullptr;

Scheduler::Scheduler(std::uint64_t seed) : random_(seed), product_random_(seed), ties_(seed) {
  // Three separate streams: the draws of one part do not change another's.
  random_ = Random(Random(seed * 3 + 0).Next());
  product_random_ = Random(Random(seed * 3 + 1).Next());
  ties_ = Random(Random(seed * 3 + 2).Next());
  current_ = this;
}

Scheduler::~Scheduler() { current_ = nullptr; }

bool Scheduler::Later(const Event& a, const Event& b) {
  if (a.at != b.at) return a.at > b.at;
  if (a.tie != b.tie) return a.tie > b.tie;
  return a.serial > b.serial;
}

void Scheduler::Push(Event event) {
  event.tie = ties_.Next();
  event.serial = ++serial_;
  event.at = std::max(event.at, now_);
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), Later);
}

Scheduler::Event Scheduler::Pop() {
  std::pop_heap(queue_.begin(), queue_.end(), Later);
  Event event = std::move(queue_.back());
  queue_.pop_back();
  return event;
}

void Scheduler::At(Nanos when, Process* process, std::function<void()> task) {
  Event event{};
  event.at = when;
  event.process = process;
  event.task = std::move(task);
  Push(std::move(event));
}

bool Scheduler::Run(const std::function<bool()>& done, std::uint64_t max_events) {
  while (!done()) {
    if (queue_.empty() || events_ >= max_events) return false;
    Event event = Pop();
    if (event.process != nullptr && !event.process->alive()) continue;
    if (event.wait != 0 && (!event.fiber->waiting || event.fiber->wait != event.wait)) continue;
    now_ = event.at;
    if (event.process != nullptr && event.process->paused_until() > now_) {
      event.at = event.process->paused_until();
      Push(std::move(event));
      continue;
    }
    ++events_;
    Mix(static_cast<std::uint64_t>(event.at));
    Mix(event.serial);
    if (event.fiber == nullptr) {
      SwitchTo(NewFiber(event.process, std::move(event.task)));
      continue;
    }
    if (event.wait != 0) {
      event.fiber->waiting = false;
      event.fiber->timed_out = true;
    }
    SwitchTo(event.fiber);
  }
  return true;
}

void Scheduler::Sleep(Nanos duration) {
  PrepareWait();
  Wait(now_ + duration);
}

std::uint64_t Scheduler::PrepareWait() {
  running_->waiting = true;
  return ++running_->wait;
}

bool Scheduler::Wait(Nanos until) {
  Fiber* const self = running_;
  if (self->waiting && until != kForever) {
    Event event{};
    event.at = until;
    event.process = self->process;
    event.fiber = self;
    event.wait = self->wait;
    Push(std::move(event));
  }
  BackToScheduler();
  return !self->timed_out;
}

void Scheduler::Wake(Fiber* fiber, std::uint64_t wait) {
  if (!fiber->waiting || fiber->wait != wait) return;
  fiber->waiting = false;
  fiber->timed_out = false;
  Event event{};
  event.at = now_;
  event.process = fiber->process;
  event.fiber = fiber;
  Push(std::move(event));
}

std::uint64_t Scheduler::StartThread(std::function<void()> body) {
  const std::uint64_t thread = ++last_thread_;
  threads_[thread];
  At(now_, process(), [this, thread, body = std::move(body)] {
    running_->thread_id = thread;
    body();
    running_->thread_id = 0;
    const std::vector<Waiter> joiners = std::move(threads_[thread]);
    threads_.erase(thread);
    for (const Waiter& joiner : joiners) Wake(joiner.fiber, joiner.wait);
  });
  return thread;
}

void Scheduler::Join(std::uint64_t thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return;
  found->second.push_back({running_, PrepareWait()});
  Wait(kForever);
}

void Scheduler::GiveStack(Fiber& fiber) {
  void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) std::abort();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  const auto address = reinterpret_cast<std::uintptr_t>(&fiber);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Scheduler::Enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
}

Fiber* Scheduler::NewFiber(Process* process, std::function<void()> body) {
  Fiber* fiber = nullptr;
  if (!free_.empty()) {
    fiber = free_.back();
    free_.pop_back();
    fiber->thread_locals = ThreadLocals();
  } else {
    // Never freed: a fiber that ends is used again, and one whose process was killed keeps its
    // stack, until the program ends.
    fiber = std::make_unique<Fiber>().release();
    fiber->id = ++fibers_;
    GiveStack(*fiber);
  }
  fiber->process = process;
  fiber->body = std::move(body);
  return fiber;
}

void Scheduler::Enter(unsigned high, unsigned low) {
  // makecontext passes nothing but ints.
  auto* const self =  // NOLINTNEXTLINE(performance-no-int-to-ptr)
      reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | std::uintptr_t{low});
  for (;;) {
    self->body();
    self->body = nullptr;
    current_->free_.push_back(self);
    current_->BackToScheduler();
  }
}

void Scheduler::SwitchTo(Fiber* fiber) {
  running_ = fiber;
  fiber->thread_locals.Exchange();
  swapcontext(&main_, &fiber->context);
  fiber->thread_locals.Exchange();
  running_ = nullptr;
}

void Scheduler::BackToScheduler() {
  Fiber* const self = running_;
  swapcontext(&self->context, &main_);
}

}  // namespace idempotency::internal::simulation
