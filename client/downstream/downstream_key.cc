#include "client/downstream/downstream_key.h"

#include <algorithm>

#include "core/length_prefix.h"
#include "core/sha256.h"

namespace idempotency::internal {
namespace {

constexpr std::string_view kVersion = "downstream-key-v1";

std::string_view BytesOf(const RecordId& id) {
  return {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()};
}

}  // namespace

std::string DownstreamKey(std::string_view secret, const DownstreamCall& call) {
  std::string input;
  AppendPart(kVersion, input);
  AppendPart(BytesOf(call.record_id), input);
  AppendPart(call.method, input);
  AppendPart(call.label, input);
  const Sha256Digest mac = HmacSha256(secret, input);
  Uuid::Rest rest;
  std::copy_n(mac.begin(), rest.size(), rest.begin());
  return Uuid::TimeOrdered(call.created_at, rest).ToString();
}

}  // namespace idempotency::internal
