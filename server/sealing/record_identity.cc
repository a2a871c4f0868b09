#include "server/sealing/record_identity.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/length_prefix.h"

namespace idempotency::internal {

std::string RecordIdentity(std::string_view use, const RecordKey& key, const RecordId& id,
                           std::initializer_list<std::string_view> more) {
  const std::array<std::string_view, 5> parts = {use, key.name_space, key.scope, key.operation,
                                                 key.key};
  const std::string_view id_bytes = BytesOf(id);
  std::size_t size = id_bytes.size();
  for (const std::string_view part : parts) size += sizeof(std::uint32_t) + part.size();
  for (const std::string_view bytes : more) size += bytes.size();
  std::string identity;
  identity.reserve(size);
  for (const std::string_view part : parts) AppendPart(part, identity);
  identity.append(id_bytes);
  for (const std::string_view bytes : more) identity.append(bytes);
  return identity;
}

std::string_view BytesOf(const Uuid& uuid) {
  return {reinterpret_cast<const char*>(uuid.bytes().data()), uuid.bytes().size()};
}

}  // namespace idempotency::internal
