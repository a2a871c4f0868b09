#include "grpc_idempotency/fingerprint.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "core/field_faults.h"
#include "core/length_prefix.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency {

using internal::AppendBigEndian32;
using internal::FieldFaults;
using internal::ReadBigEndian32;

namespace {

// SHA-256.
constexpr std::size_t kVersion1DigestBytes = 32;

constexpr std::size_t kHeaderBytes = 5;
// In the length: the id of a key follows. Digests are shorter.
constexpr std::uint8_t kKeyed = 0x80;
constexpr std::size_t kKeyIdBytes = 4;
static_assert(limits::kMaxDigestBytes < kKeyed);
// In the version on the wire: the same.
constexpr std::uint32_t kKeyedOnTheWire = 0x80000000;
// HMAC-SHA256.
constexpr std::size_t kKeyedDigestBytes = 32;

bool HasDigestSize(std::size_t size) {
  return size >= limits::kMinDigestBytes && size <= limits::kMaxDigestBytes;
}

// Whether `same` holds for the element and one before it.
template <typename Element, typename Same>
bool IsRepeated(absl::Span<const Element> elements, std::size_t index, Same same) {
  const auto before = elements.subspan(0, index);
  return std::any_of(before.begin(), before.end(),
                     [&](const Element& other) { return same(other, elements[index]); });
}

// The subject of the rules.
struct Shape {
  std::uint32_t version = 0;
  std::size_t digest_bytes = 0;
};

bool HaveSameVersion(const Shape& a, const Shape& b) { return a.version == b.version; }

absl::Status ValidateShapes(absl::Span<const Shape> shapes) {
  FieldFaults faults;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto fault = [&faults, i](const char* member, const auto&... description) {
      faults.Add(absl::StrCat("fingerprints[", i, "].", member), absl::StrCat(description...));
    };
    if (shapes[i].version == 0) fault("version", "must be at least 1");
    if (IsRepeated(shapes, i, HaveSameVersion)) fault("version", "is duplicated");
    if (shapes[i].version == 1 && shapes[i].digest_bytes != kVersion1DigestBytes) {
      fault("digest", "must be ", kVersion1DigestBytes, " bytes for version 1");
    } else if (!HasDigestSize(shapes[i].digest_bytes)) {
      fault("digest", "must be ", limits::kMinDigestBytes, "-", limits::kMaxDigestBytes, " bytes");
    }
  }
  return faults.status();
}

// `shape_of` returns the shape of an element.
template <typename Elements, typename ShapeOf>
absl::Status ValidateEach(const Elements& fingerprints, ShapeOf shape_of) {
  std::array<Shape, limits::kMaxFingerprints> shapes;
  const auto count = static_cast<std::size_t>(fingerprints.size());
  if (count == 0 || count > shapes.size()) {
    return InvalidField("fingerprints",
                        absl::StrCat("must be 1-", limits::kMaxFingerprints, " fingerprints"));
  }
  std::transform(fingerprints.begin(), fingerprints.end(), shapes.begin(), shape_of);
  return ValidateShapes(absl::MakeConstSpan(shapes).subspan(0, count));
}

bool HaveSameVersionAndKey(const Fingerprint& a, const Fingerprint& b) {
  return a.version == b.version && a.key_id == b.key_id;
}

// Older versions accepted any digest for version 1, and one version under several keys. Their
// stored digests still decide.
bool IsReadable(absl::Span<const Fingerprint> fingerprints) {
  if (fingerprints.empty() || fingerprints.size() > limits::kMaxFingerprints) return false;
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    if (fingerprints[i].version == 0 || !HasDigestSize(fingerprints[i].digest.size()) ||
        IsRepeated(fingerprints, i, HaveSameVersionAndKey)) {
      return false;
    }
  }
  return true;
}

// The id of the key on the wire; 0 for a digest without a key.
std::uint32_t KeyIdOf(const v1::Fingerprint& proto) {
  // Otherwise it is an application's own version, which happens to be so high.
  if ((proto.version() & kKeyedOnTheWire) == 0 || proto.version() == kKeyedOnTheWire ||
      proto.digest().size() != kKeyIdBytes + kKeyedDigestBytes) {
    return 0;
  }
  return ReadBigEndian32(proto.digest());
}

absl::Status Damaged() {
  return MakeError(Reason::kRecordDamaged, "the stored fingerprints are damaged");
}

}  // namespace

FingerprintMatch CompareFingerprints(absl::Span<const Fingerprint> stored,
                                     absl::Span<const Fingerprint> sent) {
  FingerprintMatch match = FingerprintMatch::kNothingInCommon;
  for (const Fingerprint& a : stored) {
    for (const Fingerprint& b : sent) {
      if (a.version != b.version || a.key_id != b.key_id) continue;
      if (a.digest != b.digest) return FingerprintMatch::kDifferent;
      match = FingerprintMatch::kSame;
    }
  }
  return match;
}

absl::Status ValidateFingerprints(absl::Span<const Fingerprint> fingerprints) {
  return ValidateEach(fingerprints, [](const Fingerprint& fingerprint) {
    return Shape{fingerprint.version, fingerprint.digest.size()};
  });
}

absl::Status ValidateWireFingerprints(
    const google::protobuf::RepeatedPtrField<v1::Fingerprint>& fingerprints) {
  return ValidateEach(fingerprints, [](const v1::Fingerprint& fingerprint) {
    if (KeyIdOf(fingerprint) == 0) {
      return Shape{fingerprint.version(), fingerprint.digest().size()};
    }
    return Shape{fingerprint.version() & ~kKeyedOnTheWire, kKeyedDigestBytes};
  });
}

std::string EncodeFingerprints(absl::Span<const Fingerprint> fingerprints) {
  std::string bytes;
  for (const Fingerprint& fingerprint : fingerprints) {
    AppendBigEndian32(fingerprint.version, bytes);
    const bool keyed = fingerprint.key_id != 0;
    bytes.push_back(static_cast<char>(fingerprint.digest.size() | (keyed ? kKeyed : 0)));
    if (keyed) AppendBigEndian32(fingerprint.key_id, bytes);
    bytes.append(fingerprint.digest);
  }
  return bytes;
}

absl::StatusOr<std::vector<Fingerprint>> DecodeFingerprints(std::string_view bytes) {
  std::vector<Fingerprint> fingerprints;
  while (!bytes.empty()) {
    if (bytes.size() < kHeaderBytes) return Damaged();
    const std::uint32_t version = ReadBigEndian32(bytes);
    const auto length = static_cast<std::uint8_t>(bytes[4]);
    bytes.remove_prefix(kHeaderBytes);
    std::uint32_t key_id = 0;
    if ((length & kKeyed) != 0) {
      if (bytes.size() < kKeyIdBytes) return Damaged();
      key_id = ReadBigEndian32(bytes);
      bytes.remove_prefix(kKeyIdBytes);
      // Only the plain form stands for no key.
      if (key_id == 0) return Damaged();
    }
    const std::size_t size = length & ~kKeyed;
    if (bytes.size() < size) return Damaged();
    fingerprints.push_back({version, std::string(bytes.substr(0, size)), key_id});
    bytes.remove_prefix(size);
  }
  if (!IsReadable(fingerprints)) return Damaged();
  return fingerprints;
}

Fingerprint FromProto(const v1::Fingerprint& proto) {
  const std::uint32_t key_id = KeyIdOf(proto);
  if (key_id == 0) return {proto.version(), proto.digest()};
  return {proto.version() & ~kKeyedOnTheWire, proto.digest().substr(kKeyIdBytes), key_id};
}

v1::Fingerprint ToProto(const Fingerprint& fingerprint) {
  v1::Fingerprint proto;
  proto.set_version(fingerprint.version);
  proto.set_digest(fingerprint.digest);
  if (fingerprint.key_id == 0) return proto;
  proto.set_version(fingerprint.version | kKeyedOnTheWire);
  std::string digest;
  AppendBigEndian32(fingerprint.key_id, digest);
  proto.set_digest(digest + fingerprint.digest);
  return proto;
}

}  // namespace idempotency
