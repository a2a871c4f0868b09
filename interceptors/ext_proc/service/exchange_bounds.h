#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_BOUNDS_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_BOUNDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "core/exchange_limits.h"
#include "core/mutex.h"
#include "interceptors/ext_proc/service/processor_events.h"

namespace idempotency::internal {

// The limits of all exchanges together: their number, and the bytes that they hold.
//
// Requests have one half of the bytes and replies the other, so that a flood of requests does not
// cost the record of a reply. A scope takes no more of a half than it leaves to the others:
// alone up to half of it, two up to a third each, and so on. It takes at most kExchangesPerLeft
// exchanges for each one that it leaves: alone up to eight ninths, two up to eight
// seventeenths each. So there is room for one more scope, regardless of their number and behaviour.
// Exchanges that are not guarded count together, as one more scope.
//
// Thread-safe.
class ExchangeBounds {
 public:
  struct Limits {
    std::size_t exchanges = limits::kMaxExchanges;
    std::size_t bytes = limits::kMaxExchangeBytes;
  };

  // An exchange, unlike a message, is small compared with its scope's share, so a small free part
  // is enough. As the stream of a proxy is refused without a reason once there is no place at all,
  // a scope must reach its share before.
  static constexpr std::size_t kExchangesPerLeft = 8;
  // Threads that read large messages.
  static constexpr int kMaxWorkers = 16;
  // The memory of the fields of one parsed request, for each byte of the largest request. A large
  // request of small fields takes this much; its scope's share has room for one.
  static constexpr std::size_t kMaxFieldBytesPerByte = 12;

  // The bytes that one exchange holds. A value type.
  struct Held {
    enum class Kind { kRequest, kReply };

    // "": no scope is known, or the exchange is not guarded.
    std::string scope;
    Kind kind = Kind::kRequest;
    std::size_t bytes = 0;
  };

  // Bytes that are held temporarily in addition to the exchange's; returned at the end of this
  // object. Movable.
  class Share {
   public:
    Share(Share&& other) noexcept
        : bounds_(std::exchange(other.bounds_, nullptr)), held_(std::move(other.held_)) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (bounds_ != nullptr) bounds_->Return(held_);
    }

   private:
    friend class ExchangeBounds;
    Share(ExchangeBounds* bounds, Held held) : bounds_(bounds), held_(std::move(held)) {}

    ExchangeBounds* bounds_;
    Held held_;
  };

  // One of the exchanges of a scope; returned at its end. Movable.
  class Place {
   public:
    Place(Place&& other) noexcept
        : bounds_(std::exchange(other.bounds_, nullptr)), scope_(std::move(other.scope_)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (bounds_ != nullptr) bounds_->LeaveScope(scope_);
    }

   private:
    friend class ExchangeBounds;
    Place(ExchangeBounds* bounds, std::string scope) : bounds_(bounds), scope_(std::move(scope)) {}

    ExchangeBounds* bounds_;
    std::string scope_;
  };

  // `events` outlives it.
  ExchangeBounds(const Limits& limits, ProcessorEvents& events)
      : events_(events), limits_(limits) {}

  // Applies from now on; the bytes that are held already stay.
  void SetLimits(const Limits& limits);

  // One more exchange; false: there is no place, and nothing is counted.
  bool Enter();
  // The scope of an exchange that has entered is known; "": it is not guarded. nullopt: the scope
  // has its share of them, and nothing is counted.
  std::optional<Place> TryEnterScope(const std::string& scope);
  // Changes what one exchange holds from `before` to `now`. False if its scope, or all of them,
  // then hold too much: the exchange must hold less, and is counted in any case. A scope that holds
  // nothing else may take all that is left, since a large message cannot be split.
  bool Hold(const Held& before, const Held& now);
  void Leave(const Held& held);
  // The bytes that the scope may take in addition to `held` while no other exchange holds anything:
  // more never finds room.
  std::size_t MostBeside(const Held& held);
  // nullopt: there is no room, by the same rules, and nothing is counted.
  std::optional<Share> TryShare(const Held& held);

 private:
  // One half.
  struct Half {
    absl::flat_hash_map<std::string, std::size_t> of_scope;
    std::size_t bytes = 0;
  };

  void Return(const Held& held);
  void LeaveScope(const std::string& scope);
  Half& HalfOf(const Held& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return held.kind == Held::Kind::kRequest ? requests_ : replies_;
  }
  bool MayTake(const Held& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const Held& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const Held& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ProcessorEvents& events_;
  Mutex mutex_;
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  std::size_t exchanges_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, std::size_t> exchanges_of_scope_ ABSL_GUARDED_BY(mutex_);
  Half requests_ ABSL_GUARDED_BY(mutex_);
  Half replies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXCHANGE_BOUNDS_H_
