#include "server/service/key_ring_watch.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/observability/log.h"
#include "server/sealing/key_ring_file.h"

namespace idempotency::internal {
namespace {

absl::Status CheckSeals(const SealingOptions& options, const KeyRing& ring, absl::Time now) {
  if (options.accept_unsealed || ring.SealsAt(now) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options.key_ring, ": no key seals yet, the first one from ",
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", ring.keys().back()->seals_from(), absl::UTCTimeZone()),
      " on; wait until then, or set --accept_unsealed, with which rows are stored unsealed until "
      "then"));
}

// The keys that one ring has and the other has not.
std::string IdsMissing(const KeyRing& from, const KeyRing& in) {
  std::string ids;
  for (const auto& key : from.keys()) {
    if (in.Find(key->id()) == nullptr) absl::StrAppend(&ids, ids.empty() ? "" : " ", key->id());
  }
  return ids;
}

std::vector<std::uint32_t> IdsOf(const KeyRing& ring) {
  std::vector<std::uint32_t> ids;
  for (const auto& key : ring.keys()) ids.push_back(key->id());
  return ids;
}

void LogReplaced(const std::string& path, const KeyRing& before, const KeyRing& after) {
  Log(LogLevel::kInfo, "key ring replaced",
      {{"keyring", path},
       {"added", IdsMissing(after, before)},
       {"removed", IdsMissing(before, after)}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeyRingWatch>> KeyRingWatch::Start(const SealingOptions& options,
                                                                  Observer& observer,
                                                                  const Clock& clock,
                                                                  absl::Duration refresh) {
  absl::StatusOr<std::shared_ptr<const KeyRing>> ring = ReadKeyRingFile(options.key_ring);
  if (!ring.ok()) return ring.status();
  if (absl::Status seals = CheckSeals(options, **ring, clock.Now()); !seals.ok()) return seals;
  // Private constructor.
  std::unique_ptr<KeyRingWatch> watch(new KeyRingWatch(
      options, observer, clock, std::make_shared<KeyRingSource>(*std::move(ring))));
  observer.KeyRingRead(absl::OkStatus());
  observer.KeyRingUsed(IdsOf(*watch->source_->Current()));
  watch->thread_.emplace("key ring", refresh, [pointer = watch.get(), refresh] {
    pointer->Refresh();
    return refresh;
  });
  return watch;
}

KeyRingWatch::KeyRingWatch(const SealingOptions& options, Observer& observer, const Clock& clock,
                           std::shared_ptr<KeyRingSource> source)
    : options_(options),
      observer_(observer),
      clock_(clock),
      source_(std::move(source)),
      rings_(source_) {}

absl::Status KeyRingWatch::Adopt() {
  absl::StatusOr<std::shared_ptr<const KeyRing>> ring = ReadKeyRingFile(options_.key_ring);
  if (!ring.ok()) return ring.status();
  const std::shared_ptr<const KeyRing> before = source_->Current();
  if ((*ring)->IsSameAs(*before)) return absl::OkStatus();
  const absl::Time now = clock_.Now();
  if (absl::Status follows = (*ring)->CheckSuccessorOf(*before); !follows.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(options_.key_ring, ": ", follows.message()));
  }
  if (absl::Status seals = CheckSeals(options_, **ring, now); !seals.ok()) return seals;
  if (before->SealsAt(now) != nullptr && (*ring)->SealsAt(now) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.key_ring,
        ": no key seals now, but one did; rows would be stored unsealed again. Put it back"));
  }
  // No rotation removes it, so that this is another file, such as an earlier copy: what the key
  // sealed could not be opened.
  const SealingKey* const sealing = before->SealsAt(now);
  if (sealing != nullptr && (*ring)->Find(sealing->id()) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.key_ring, ": lacks key ", sealing->id(),
        ", which seals now: without it the rows that it sealed cannot be opened; put it back"));
  }
  LogReplaced(options_.key_ring, *before, **ring);
  observer_.KeyRingUsed(IdsOf(**ring));
  source_->Replace(*std::move(ring));
  return absl::OkStatus();
}

void KeyRingWatch::Refresh() {
  MutexLock lock(mutex_);
  const absl::Status adopted = Adopt();
  const std::string complaint(adopted.message());
  if (std::exchange(complaint_, complaint) == complaint) return;
  observer_.KeyRingRead(adopted);
  if (adopted.ok()) return;
  Log(LogLevel::kWarn, "key ring cannot be used, the previous one stays in use",
      {{"error", complaint}, {"advice", "correct the file; it is read again every second"}});
}

}  // namespace idempotency::internal
