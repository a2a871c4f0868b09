#ifndef IDEMPOTENCY_SERVER_RPC_CALL_TABLE_H_
#define IDEMPOTENCY_SERVER_RPC_CALL_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/mutex.h"
#include "server/limits.h"
#include "server/observability/observer.h"

namespace idempotency::internal {

// The calls of a listener that have arrived and not ended, counted in total and by remote address:
// sessions that wait, watches, and unary calls without a request message, which gRPC keeps for as
// long as the connection lives.
//
// Thread-safe.
class CallTable {
 public:
  struct Limits {
    int calls = 0;
    // Refused calls whose status is on its way: a caller that does not read keeps it there. Half of
    // them for one address.
    int refusals = 0;
    // From one address: an IPv4 address, or 64 bits of an IPv6 address, the prefix that one host
    // gets. Unix sockets have no such limit.
    int per_peer = 0;
  };
  // Half of them for one address, so that one client never excludes the others.
  static Limits Within(int max_calls) {
    return {max_calls, idempotency::limits::kMaxCallRefusals, (max_calls + 1) / 2};
  }

  // One of the calls, until it is destroyed.
  class Place {
   public:
    Place() = default;
    ~Place() { Leave(); }
    Place(Place&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)),
          refused_(other.refused_),
          peer_(std::move(other.peer_)) {}
    Place& operator=(Place&& other) noexcept {
      Leave();
      table_ = std::exchange(other.table_, nullptr);
      refused_ = other.refused_;
      peer_ = std::move(other.peer_);
      return *this;
    }

   private:
    friend class CallTable;
    Place(CallTable& table, bool refused, std::string peer)
        : table_(&table), refused_(refused), peer_(std::move(peer)) {}
    void Leave();

    CallTable* table_ = nullptr;
    bool refused_ = false;
    std::string peer_;
  };

  // `observer`, if any, outlives it.
  explicit CallTable(const Limits& limits = Within(idempotency::limits::kMaxCalls),
                     Observer* observer = nullptr);
  // Every place has been left.
  ~CallTable();
  CallTable(const CallTable&) = delete;
  CallTable& operator=(const CallTable&) = delete;

  // RESOURCE_EXHAUSTED / OVERLOADED, with a retry delay, if there are too many. `peer` is gRPC's
  // text of the remote address, such as "ipv4:192.0.2.1:4000" or "ipv6:%5B2001:db8::1%5D:4000".
  absl::StatusOr<Place> Admit(absl::string_view peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // A place for a refused call of `peer` until its caller has its status; nullopt if there are too
  // many. Such a call is cancelled instead, which waits for nothing.
  std::optional<Place> AdmitRefusal(absl::string_view peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // The number of calls that were not refused.
  int size() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The calls that all tables of the process have admitted or refused so far, to compare them with
  // those that gRPC has begun.
  static std::int64_t AllArrived();
  // The calls of a host (server/rpc/remote_address.h) in all tables of the process, as gRPC counts
  // the streams of all connections: a process may have several listeners.
  static int AllOfHost(const std::string& host);

 private:
  class All;

  int OfHost(const std::string& host) const ABSL_LOCKS_EXCLUDED(mutex_);

  const Limits limits_;
  Observer* const observer_;
  mutable Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, int> by_peer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int> refusals_by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_CALL_TABLE_H_
