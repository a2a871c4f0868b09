#include "server/sealing/key_ring.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "idempotency/config/v1/keyring.pb.h"
#include "server/limits.h"
#include "server/sealing/secret.h"

namespace idempotency::internal {
namespace {

constexpr std::string_view kSalt = "grpc-idempotency sealing v1";
constexpr std::size_t kCheckValueBytes = 8;

// Keeps the place of the first error. Its text may quote a secret that stands in a wrong place.
class FirstFault final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string&) override {
    if (place_.empty()) place_ = absl::StrCat("line ", line + 1, ", column ", column + 1);
  }
  const std::string& place() const { return place_; }

 private:
  std::string place_;
};

absl::Status Wrong(std::size_t index, absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("keys[", index, "].", field, " ", what));
}

absl::StatusOr<absl::Time> ParseTimeOf(std::size_t index, absl::string_view field,
                                       const std::string& text) {
  absl::Time time;
  std::string error;
  if (text.empty() || !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return Wrong(index, field, "must be a time in RFC 3339, such as \"2026-01-31T00:00:00Z\"");
  }
  return time;
}

absl::StatusOr<std::unique_ptr<const SealingKey>> ReadKey(std::size_t index,
                                                          config::v1::SealingKey& key) {
  if (key.id() == 0) return Wrong(index, "id", "must be 1 to 4294967295");
  const absl::StatusOr<absl::Time> created = ParseTimeOf(index, "created", key.created());
  if (!created.ok()) return created.status();
  absl::StatusOr<absl::Time> seals_from = *created;
  if (!key.seals_from().empty()) seals_from = ParseTimeOf(index, "seals_from", key.seals_from());
  if (!seals_from.ok()) return seals_from.status();
  std::string secret;
  const bool decoded = absl::Base64Unescape(key.secret(), &secret);
  const WipedAtEnd wiped(secret);
  if (!decoded || secret.size() != SealingKey::kSecretBytes) {
    return Wrong(index, "secret",
                 "must be 32 random bytes in base64; `idempotencyctl keyring generate` makes one");
  }
  if (std::all_of(secret.begin(), secret.end(), [&](char c) { return c == secret.front(); })) {
    return Wrong(index, "secret",
                 "is one byte repeated; `idempotencyctl keyring generate` makes a random one");
  }
  return std::make_unique<const SealingKey>(key.id(), *created, *seals_from, secret);
}

std::string CheckValue(const HmacKey& root) {
  const Sha256Digest digest = root.Expand("check value").Sign({});
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), kCheckValueBytes));
}

absl::Status CheckDistinct(const std::vector<std::unique_ptr<const SealingKey>>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (keys[i]->id() == keys[j]->id()) {
        return Wrong(i, "id", absl::StrCat("is that of keys[", j, "]; ids are unique"));
      }
      if (keys[i]->check_value() == keys[j]->check_value()) {
        return Wrong(i, "secret", absl::StrCat("is that of keys[", j, "]; make a new one"));
      }
    }
  }
  return absl::OkStatus();
}

// Wipes the secrets of a parsed file.
class WipedKeys {
 public:
  explicit WipedKeys(config::v1::KeyRing& file) : file_(file) {}
  ~WipedKeys() {
    for (config::v1::SealingKey& key : *file_.mutable_keys()) {
      const WipedAtEnd wiped(*key.mutable_secret());
    }
  }
  WipedKeys(const WipedKeys&) = delete;
  WipedKeys& operator=(const WipedKeys&) = delete;

 private:
  config::v1::KeyRing& file_;
};

}  // namespace

SealingKey::SealingKey(std::uint32_t id, absl::Time created, absl::Time seals_from,
                       std::string_view secret)
    : SealingKey(id, created, seals_from, HmacKey::Extract(kSalt, secret)) {}

SealingKey::SealingKey(std::uint32_t id, absl::Time created, absl::Time seals_from,
                       const HmacKey& root)
    : id_(id),
      created_(created),
      seals_from_(seals_from),
      replies_(root.Expand("replies")),
      checkpoints_(root.Expand("checkpoints")),
      reply_digests_(root.Expand("reply digests")),
      fingerprints_(root.Expand("fingerprints")),
      check_value_(CheckValue(root)) {}

absl::StatusOr<std::shared_ptr<const KeyRing>> KeyRing::Parse(std::string_view text) {
  config::v1::KeyRing file;
  const WipedKeys wiped(file);
  FirstFault fault;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&fault);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&input, &file)) {
    return absl::InvalidArgumentError(
        absl::StrCat(fault.place(), ": is not the text form of idempotency.config.v1.KeyRing"));
  }
  if (file.keys().empty() || file.keys_size() > static_cast<int>(limits::kMaxKeyRingKeys)) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys must be 1 to ", limits::kMaxKeyRingKeys, " keys"));
  }
  std::vector<std::unique_ptr<const SealingKey>> keys;
  for (config::v1::SealingKey& key : *file.mutable_keys()) {
    absl::StatusOr<std::unique_ptr<const SealingKey>> read = ReadKey(keys.size(), key);
    if (!read.ok()) return read.status();
    keys.push_back(*std::move(read));
  }
  if (const absl::Status distinct = CheckDistinct(keys); !distinct.ok()) return distinct;
  // Private constructor.
  return std::shared_ptr<const KeyRing>(new KeyRing(std::move(keys)));
}

KeyRing::KeyRing(std::vector<std::unique_ptr<const SealingKey>> keys)
    : keys_([&keys] {
        std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
          return std::make_tuple(a->seals_from(), a->created(), a->id()) >
                 std::make_tuple(b->seals_from(), b->created(), b->id());
        });
        return std::move(keys);
      }()) {}

const SealingKey* KeyRing::SealsAt(absl::Time now) const {
  const auto key = std::find_if(keys_.begin(), keys_.end(),
                                [now](const auto& k) { return k->seals_from() <= now; });
  return key == keys_.end() ? nullptr : key->get();
}

const SealingKey* KeyRing::Find(std::uint32_t id) const {
  const auto key =
      std::find_if(keys_.begin(), keys_.end(), [id](const auto& k) { return k->id() == id; });
  return key == keys_.end() ? nullptr : key->get();
}

bool KeyRing::IsSameAs(const KeyRing& other) const {
  return std::equal(keys_.begin(), keys_.end(), other.keys_.begin(), other.keys_.end(),
                    [](const auto& a, const auto& b) {
                      return a->id() == b->id() && a->seals_from() == b->seals_from() &&
                             a->check_value() == b->check_value();
                    });
}

absl::Status KeyRing::CheckSuccessorOf(const KeyRing& before) const {
  for (const auto& key : keys_) {
    const SealingKey* const former = before.Find(key->id());
    if (former == nullptr || former->check_value() == key->check_value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("key ", key->id(),
                     " has another secret than before: rows that the former one sealed could not "
                     "be opened; give the new secret a new id"));
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
