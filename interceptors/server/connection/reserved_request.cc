#include "interceptors/server/connection/reserved_request.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/hash/hash.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

// Each part is preceded by its length, so that parts which read the same in a row differ.
using Length = std::uint32_t;

std::array<std::string_view, 4> PartsOf(const v1::RecordKey& key) {
  return {key.namespace_(), key.scope(), key.operation(), key.key()};
}

void AppendNumber(Length number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendPart(std::string_view part, std::string& out) {
  AppendNumber(static_cast<Length>(part.size()), out);
  out.append(part);
}

// Each removes what it compares from the start of `encoded`.
bool StartsWithNumber(std::string_view& encoded, Length number) {
  if (encoded.size() < sizeof(number)) return false;
  if (std::memcmp(encoded.data(), &number, sizeof(number)) != 0) return false;
  encoded.remove_prefix(sizeof(number));
  return true;
}

bool StartsWithPart(std::string_view& encoded, std::string_view part) {
  if (!StartsWithNumber(encoded, static_cast<Length>(part.size()))) return false;
  if (encoded.substr(0, part.size()) != part) return false;
  encoded.remove_prefix(part.size());
  return true;
}

std::size_t EncodedBytes(const v1::RecordKey& key,
                         const ReservedRequest::Fingerprints& fingerprints) {
  std::size_t bytes = 0;
  for (const std::string_view part : PartsOf(key)) bytes += sizeof(Length) + part.size();
  for (const v1::Fingerprint& fingerprint : fingerprints) {
    bytes += 2 * sizeof(Length) + fingerprint.digest().size();
  }
  return bytes;
}

}  // namespace

ReservedRequest::ReservedRequest(const v1::RecordKey& key, const Fingerprints& fingerprints)
    : hash_(HashOf(key)) {
  encoded_.reserve(EncodedBytes(key, fingerprints));
  for (const std::string_view part : PartsOf(key)) AppendPart(part, encoded_);
  key_bytes_ = encoded_.size();
  for (const v1::Fingerprint& fingerprint : fingerprints) {
    AppendNumber(fingerprint.version(), encoded_);
    AppendPart(fingerprint.digest(), encoded_);
  }
}

std::size_t ReservedRequest::HashOf(const v1::RecordKey& key) {
  // abseil's own view, which it hashes faster where it is not the standard library's.
  return absl::HashOf(AbslView(key.namespace_()), AbslView(key.scope()), AbslView(key.operation()),
                      AbslView(key.key()));
}

bool ReservedRequest::HasKey(const v1::RecordKey& other) const {
  std::string_view rest = key();
  for (const std::string_view part : PartsOf(other)) {
    if (!StartsWithPart(rest, part)) return false;
  }
  return true;
}

bool ReservedRequest::HasFingerprints(const Fingerprints& other) const {
  std::string_view rest = fingerprints();
  for (const v1::Fingerprint& fingerprint : other) {
    if (!StartsWithNumber(rest, fingerprint.version())) return false;
    if (!StartsWithPart(rest, fingerprint.digest())) return false;
  }
  return rest.empty();
}

}  // namespace idempotency::internal
