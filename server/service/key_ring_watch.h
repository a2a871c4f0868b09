#ifndef IDEMPOTENCY_SERVER_SERVICE_KEY_RING_WATCH_H_
#define IDEMPOTENCY_SERVER_SERVICE_KEY_RING_WATCH_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "server/observability/observer.h"
#include "server/sealing/key_ring_source.h"
#include "server/sealing/sealing_options.h"
#include "server/service/periodic_thread.h"

namespace idempotency::internal {

// How often the key ring's file is read: a small one, and a new key seals no earlier than the time
// in its file.
inline constexpr absl::Duration kKeyRingRefresh = absl::Seconds(1);

// The key ring of a file, read again while it lives. A file that cannot be used leaves the former
// ring in use, with one log line for each different fault, and a metric.
//
// Thread-safe.
class KeyRingWatch {
 public:
  // Reads the file. INVALID_ARGUMENT names it and what is wrong: see ReadKeyRingFile(); or no key
  // seals yet although unsealed rows are not accepted. `observer` and `clock` outlive it.
  static absl::StatusOr<std::unique_ptr<KeyRingWatch>> Start(
      const SealingOptions& options, Observer& observer, const Clock& clock = Clock::System(),
      absl::Duration refresh = kKeyRingRefresh);
  ~KeyRingWatch() = default;
  KeyRingWatch(const KeyRingWatch&) = delete;
  KeyRingWatch& operator=(const KeyRingWatch&) = delete;

  // The ring in use. May outlive the watch.
  const std::shared_ptr<const KeyRingSource>& rings() const { return rings_; }

  // Reads the file now, as the thread does every `refresh`.
  void Refresh();

 private:
  KeyRingWatch(const SealingOptions& options, Observer& observer, const Clock& clock,
               std::shared_ptr<KeyRingSource> source);

  // Uses what the file has, unless that is what is in use. A ring has to have the key that seals.
  absl::Status Adopt();

  const SealingOptions options_;
  Observer& observer_;
  const Clock& clock_;
  const std::shared_ptr<KeyRingSource> source_;
  const std::shared_ptr<const KeyRingSource> rings_;

  Mutex mutex_;
  // Why the file is not used now, or "".
  std::string complaint_ ABSL_GUARDED_BY(mutex_);

  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_KEY_RING_WATCH_H_
