#include "core/fingerprint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "core/errors.h"
#include "core/limits.h"
#include "core/sha256.h"

namespace idempotency {
namespace {

constexpr std::size_t kHeaderBytes = 5;

bool HasDigestSize(std::size_t size) {
  return size >= limits::kMinDigestBytes && size <= limits::kMaxDigestBytes;
}

bool IsRepeated(absl::Span<const Fingerprint> fingerprints, std::size_t index) {
  const auto before = fingerprints.subspan(0, index);
  return std::any_of(before.begin(), before.end(), [&](const Fingerprint& other) {
    return other.version == fingerprints[index].version;
  });
}

absl::Status Damaged() {
  return MakeError(Reason::kRecordDamaged, "the stored fingerprints are damaged");
}

std::uint32_t ReadBigEndian32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = (value << 8) | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

}  // namespace

FingerprintMatch CompareFingerprints(absl::Span<const Fingerprint> stored,
                                     absl::Span<const Fingerprint> sent) {
  FingerprintMatch match = FingerprintMatch::kNothingInCommon;
  for (const Fingerprint& a : stored) {
    for (const Fingerprint& b : sent) {
      if (a.version != b.version) continue;
      if (a.digest != b.digest) return FingerprintMatch::kDifferent;
      match = FingerprintMatch::kSame;
    }
  }
  return match;
}

absl::Status ValidateFingerprints(absl::Span<const Fingerprint> fingerprints) {
  if (fingerprints.empty() || fingerprints.size() > limits::kMaxFingerprints) {
    return InvalidField("fingerprints",
                        absl::StrCat("must be 1-", limits::kMaxFingerprints, " fingerprints"));
  }
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    const std::string field = absl::StrCat("fingerprints[", i, "]");
    if (fingerprints[i].version == 0) {
      return InvalidField(absl::StrCat(field, ".version"), "must be at least 1");
    }
    if (!HasDigestSize(fingerprints[i].digest.size())) {
      return InvalidField(absl::StrCat(field, ".digest"),
                          absl::StrCat("must be ", limits::kMinDigestBytes, "-",
                                       limits::kMaxDigestBytes, " bytes"));
    }
    if (IsRepeated(fingerprints, i)) {
      return InvalidField(absl::StrCat(field, ".version"), "stands there twice");
    }
  }
  return absl::OkStatus();
}

std::string EncodeFingerprints(absl::Span<const Fingerprint> fingerprints) {
  std::string bytes;
  for (const Fingerprint& fingerprint : fingerprints) {
    AppendBigEndian32(fingerprint.version, bytes);
    bytes.push_back(static_cast<char>(fingerprint.digest.size()));
    bytes.append(fingerprint.digest);
  }
  return bytes;
}

absl::StatusOr<std::vector<Fingerprint>> DecodeFingerprints(std::string_view bytes) {
  std::vector<Fingerprint> fingerprints;
  while (!bytes.empty()) {
    if (bytes.size() < kHeaderBytes) return Damaged();
    const std::uint32_t version = ReadBigEndian32(bytes);
    const std::size_t size = static_cast<std::uint8_t>(bytes[4]);
    bytes.remove_prefix(kHeaderBytes);
    if (bytes.size() < size) return Damaged();
    fingerprints.push_back({version, std::string(bytes.substr(0, size))});
    bytes.remove_prefix(size);
  }
  if (!ValidateFingerprints(fingerprints).ok()) return Damaged();
  return fingerprints;
}

Fingerprint FromProto(const v1::Fingerprint& proto) { return {proto.version(), proto.digest()}; }

v1::Fingerprint ToProto(const Fingerprint& fingerprint) {
  v1::Fingerprint proto;
  proto.set_version(fingerprint.version);
  proto.set_digest(fingerprint.digest);
  return proto;
}

}  // namespace idempotency
