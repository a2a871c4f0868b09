#include "server/rpc/call_table.h"

#include <atomic>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "server/rpc/remote_address.h"

namespace idempotency::internal {
namespace {

std::atomic<std::int64_t> all_arrived{0};

}  // namespace

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
          ? "idempotencyd has as many calls as it may have (--max_calls; those of the "
            "health service count apart). Call again when others have ended."
          : "This address has as many calls as one may have (half of --max_calls; those "
            "of the health service count apart). Call again when others have ended.",
      {retry_delays::kServiceOverloaded, {}, {}});
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
