#include "server/sealing/sealed_checkpoint.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/length_prefix.h"
#include "core/request_rules.h"
#include "grpc_idempotency/errors.h"
#include "server/sealing/record_identity.h"
#include "server/sealing/sealed_box.h"
#include "server/sealing/secret.h"

namespace idempotency::internal {
namespace {

constexpr std::string_view kMagic = kSealedCheckpointMagic;
constexpr std::size_t kHeaderBytes = 8;
static_assert(kSealedCheckpointBytes == kHeaderBytes + kBoxBytes);

absl::Status Damaged(std::string_view what) {
  return MakeError(Reason::kRecordDamaged, absl::StrCat("the stored checkpoint ",
                                                        absl::string_view(what.data(), what.size()),
                                                        "; the operation will not run again"));
}

std::string Associated(const RecordKey& record, const RecordId& id, std::string_view header) {
  return RecordIdentity("checkpoint", record, id).append(header);
}

}  // namespace

std::string SealCheckpoint(const SealingKey& key, const RecordKey& record, const RecordId& id,
                           std::string_view checkpoint) {
  Secret record_key;
  key.checkpoints().Expand(BytesOf(id), record_key);
  std::string sealed(kMagic);
  AppendBigEndian32(key.id(), sealed);
  const std::string associated = Associated(record, id, sealed);
  BoxKey(record_key).Append(associated, checkpoint, sealed);
  return sealed;
}

std::uint32_t KeyOfCheckpoint(std::string_view stored) {
  return stored.size() < kHeaderBytes ? 0 : ReadBigEndian32(stored.substr(kMagic.size()));
}

absl::StatusOr<std::string> OpenCheckpoint(const KeyRing& ring, const RecordKey& record,
                                           const RecordId& id, std::string_view stored) {
  if (!IsSealedCheckpoint(stored) || stored.size() < kSealedCheckpointBytes) {
    return Damaged("is damaged");
  }
  const std::uint32_t key_id = KeyOfCheckpoint(stored);
  const SealingKey* const key = ring.Find(key_id);
  if (key == nullptr) {
    return Damaged(absl::StrCat("is sealed under key ", key_id,
                                ", which the key ring does not have; put that key back"));
  }
  Secret record_key;
  key->checkpoints().Expand(BytesOf(id), record_key);
  std::optional<std::string> opened =
      BoxKey(record_key)
          .Open(Associated(record, id, stored.substr(0, kHeaderBytes)),
                stored.substr(kHeaderBytes));
  if (!opened) return Damaged("is damaged, or is that of another record");
  return *std::move(opened);
}

}  // namespace idempotency::internal
