// The bytes that stores keep: fingerprints and replies. The input is read as either.
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "core/sha256.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

void ReadFingerprints(std::string_view bytes) {
  const absl::StatusOr<std::vector<Fingerprint>> fingerprints = DecodeFingerprints(bytes);
  if (!fingerprints.ok()) {
    Require(ReasonOf(fingerprints.status()) == Reason::kRecordDamaged, "damage is reported");
    return;
  }
  for (const Fingerprint& fingerprint : *fingerprints) {
    // Older versions accepted any digest for version 1.
    Require(fingerprint.version > 0 && fingerprint.digest.size() >= limits::kMinDigestBytes &&
                fingerprint.digest.size() <= limits::kMaxDigestBytes,
            "what was stored had been checked");
  }
  Require(EncodeFingerprints(*fingerprints) == bytes, "nothing else is read than was written");
  Require(CompareFingerprints(*fingerprints, *fingerprints) == FingerprintMatch::kSame,
          "a request is the same as itself");
}

void RequireDamaged(const EncodedReply& encoded) {
  const absl::StatusOr<v1::Reply> reply = DecodeReply(encoded);
  Require(ReasonOf(reply.status()) == Reason::kRecordDamaged, "a damaged reply is never given");
  Require(ReasonOf(WithoutContent(encoded).status()) == Reason::kRecordDamaged,
          "a damaged reply is not made good");
}

void ReadReply(const std::string& bytes) {
  EncodedReply encoded{bytes, Sha256(bytes)};
  const absl::StatusOr<v1::Reply> reply = DecodeReply(encoded);
  if (reply.ok()) {
    const absl::StatusOr<EncodedReply> rest = WithoutContent(encoded);
    Require(rest.ok(), "every reply can lose its content");
    const absl::StatusOr<v1::Reply> status = DecodeReply(*rest);
    Require(status.ok() && status->code() == reply->code() && !IsComplete(*status),
            "what is left is the status, and says so");
    Require(IsUtf8(status->message()) && rest->bytes.size() <= 2048, "and it is small");
    const absl::StatusOr<EncodedReply> again = WithoutContent(*rest);
    Require(again.ok() && *again == *rest, "what has no content stays as it is");
  } else {
    RequireDamaged(encoded);
  }
  encoded.bytes.push_back('\0');
  RequireDamaged(encoded);
  if (bytes.empty()) return;
  encoded.bytes = bytes;
  encoded.bytes[bytes.size() / 2] ^= 1;
  RequireDamaged(encoded);
}

}  // namespace

void StoredValues(std::string_view input) {
  ReadFingerprints(input);
  ReadReply(std::string(input));
}

}  // namespace idempotency::internal::fuzz
