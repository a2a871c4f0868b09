#include "server/rpc/call_table.h"

#include <atomic>
#include <memory>

#include "absl/container/flat_hash_set.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "server/rpc/remote_address.h"

namespace idempotency::internal {
namespace {

std::atomic<std::int64_t> all_arrived{0};

}  // namespace

// The tables of the process.
class CallTable::All {
 public:
  // Until the process ends, since a table may be a static object.
  static All& Get() {
    static All& all = *std::make_unique<All>().release();
    return all;
  }

  void Add(const CallTable* table) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    tables_.insert(table);
  }
  void Remove(const CallTable* table) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    tables_.erase(table);
  }
  int OfHost(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    int calls = 0;
    for (const CallTable* const table : tables_) calls += table->OfHost(host);
    return calls;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_set<const CallTable*> tables_ ABSL_GUARDED_BY(mutex_);
};

CallTable::CallTable(const Limits& limits, Observer* observer)
    : limits_(limits), observer_(observer) {
  All::Get().Add(this);
}

CallTable::~CallTable() { All::Get().Remove(this); }

int CallTable::AllOfHost(const std::string& host) { return All::Get().OfHost(host); }

void CallTable::Place::Leave() {
  CallTable* const table = std::exchange(table_, nullptr);
  if (table == nullptr) return;
  MutexLock lock(table->mutex_);
  --(refused_ ? table->refusals_ : table->calls_);
  if (peer_.empty()) return;
  auto& by_peer = refused_ ? table->refusals_by_peer_ : table->by_peer_;
  const auto count = by_peer.find(peer_);
  if (--count->second == 0) by_peer.erase(count);
}

absl::StatusOr<CallTable::Place> CallTable::Admit(absl::string_view text) {
  all_arrived.fetch_add(1, std::memory_order_relaxed);
  std::string peer = HostOfPeer(text);
  std::optional<CallRefusal> refusal;
  {
    MutexLock lock(mutex_);
    if (calls_ >= limits_.calls) {
      refusal = CallRefusal::kLimit;
    } else if (!peer.empty()) {
      int& of_peer = by_peer_[peer];
      if (of_peer >= limits_.per_peer) {
        refusal = CallRefusal::kPeerLimit;
      } else {
        ++of_peer;
      }
    }
    if (!refusal) ++calls_;
  }
  if (!refusal) return Place(*this, /*refused=*/false, std::move(peer));
  if (observer_ != nullptr) observer_->CallRefused(*refusal);
  return MakeError(
      Reason::kOverloaded,
      *refusal == CallRefusal::kLimit
          ? "idempotencyd has reached its limit of calls (--max_calls; those of the "
            "health service count apart). Call again when others have ended."
          : "This address has as many calls as one may have (half of --max_calls; those "
            "of the health service count apart). Call again when others have ended.",
      RetryAfter(retry_delays::kServiceOverloaded));
}

std::optional<CallTable::Place> CallTable::AdmitRefusal(absl::string_view text) {
  std::string peer = HostOfPeer(text);
  MutexLock lock(mutex_);
  if (refusals_ >= limits_.refusals) return std::nullopt;
  if (!peer.empty()) {
    int& of_peer = refusals_by_peer_[peer];
    if (of_peer >= (limits_.refusals + 1) / 2) return std::nullopt;
    ++of_peer;
  }
  ++refusals_;
  return Place(*this, /*refused=*/true, std::move(peer));
}

int CallTable::size() const {
  MutexLock lock(mutex_);
  return calls_;
}

int CallTable::OfHost(const std::string& host) const {
  MutexLock lock(mutex_);
  const auto count = by_peer_.find(host);
  return count != by_peer_.end() ? count->second : 0;
}

std::int64_t CallTable::AllArrived() { return all_arrived.load(std::memory_order_relaxed); }

}  // namespace idempotency::internal
