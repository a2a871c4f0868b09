#include "interceptors/ext_proc/service/exchange_bounds.h"

#include <algorithm>

namespace idempotency::internal {

void ExchangeBounds::SetLimits(const Limits& limits) {
  MutexLock lock(mutex_);
  limits_ = limits;
}

bool ExchangeBounds::Enter() {
  MutexLock lock(mutex_);
  if (exchanges_ >= limits_.exchanges) return false;
  ++exchanges_;
  events_.Holds(exchanges_, requests_.bytes + replies_.bytes);
  return true;
}

std::optional<ExchangeBounds::Place> ExchangeBounds::TryEnterScope(const std::string& scope) {
  MutexLock lock(mutex_);
  const std::size_t others = exchanges_ - std::min<std::size_t>(exchanges_, 1);
  const std::size_t left = limits_.exchanges - std::min(others, limits_.exchanges);
  std::size_t& its = exchanges_of_scope_[scope];
  const std::size_t left_then = left - std::min<std::size_t>(left, 1);
  if (its > 0 && its + 1 > kExchangesPerLeft * left_then) return std::nullopt;
  ++its;
  return Place(this, scope);
}

void ExchangeBounds::LeaveScope(const std::string& scope) {
  MutexLock lock(mutex_);
  const auto of_scope = exchanges_of_scope_.find(scope);
  if (--of_scope->second == 0) exchanges_of_scope_.erase(of_scope);
}

bool ExchangeBounds::Hold(const Held& before, const Held& now) {
  MutexLock lock(mutex_);
  Remove(before);
  const bool is_less = now.kind == before.kind && now.bytes <= before.bytes;
  const bool fits = is_less || MayTake(now);
  Add(now);
  events_.Holds(exchanges_, requests_.bytes + replies_.bytes);
  return fits;
}

void ExchangeBounds::Leave(const Held& held) {
  MutexLock lock(mutex_);
  --exchanges_;
  Remove(held);
  events_.Holds(exchanges_, requests_.bytes + replies_.bytes);
}

std::size_t ExchangeBounds::MostBeside(const Held& held) {
  MutexLock lock(mutex_);
  // By MayTake(): the scope has no more than it leaves, which is half of its half.
  const std::size_t most = limits_.bytes / 2 / 2;
  return most - std::min(held.bytes, most);
}

std::optional<ExchangeBounds::Share> ExchangeBounds::TryShare(const Held& held) {
  MutexLock lock(mutex_);
  if (held.bytes > 0 && !MayTake(held)) return std::nullopt;
  Add(held);
  events_.Holds(exchanges_, requests_.bytes + replies_.bytes);
  return Share(this, held);
}

void ExchangeBounds::Return(const Held& held) {
  MutexLock lock(mutex_);
  Remove(held);
  events_.Holds(exchanges_, requests_.bytes + replies_.bytes);
}

bool ExchangeBounds::MayTake(const Held& held) {
  const Half& half = HalfOf(held);
  const std::size_t max = limits_.bytes / 2;
  const std::size_t left = max - std::min(half.bytes, max);
  if (held.bytes > left) return false;
  const auto other = half.of_scope.find(held.scope);
  return other == half.of_scope.end() || other->second + held.bytes <= left - held.bytes;
}

void ExchangeBounds::Add(const Held& held) {
  if (held.bytes == 0) return;
  Half& half = HalfOf(held);
  half.bytes += held.bytes;
  half.of_scope[held.scope] += held.bytes;
}

void ExchangeBounds::Remove(const Held& held) {
  if (held.bytes == 0) return;
  Half& half = HalfOf(held);
  half.bytes -= held.bytes;
  const auto of_scope = half.of_scope.find(held.scope);
  of_scope->second -= held.bytes;
  if (of_scope->second == 0) half.of_scope.erase(of_scope);
}

}  // namespace idempotency::internal
