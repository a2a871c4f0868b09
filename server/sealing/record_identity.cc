#include "server/sealing/record_identity.h"

#include "core/sha256.h"

namespace idempotency::internal {

std::string RecordIdentity(std::string_view use, const RecordKey& key, const RecordId& id) {
  std::string identity;
  for (const std::string_view part :
       {use, std::string_view(key.name_space), std::string_view(key.scope),
        std::string_view(key.operation), std::string_view(key.key)}) {
    AppendPart(part, identity);
  }
  return identity.append(BytesOf(id));
}

std::string_view BytesOf(const Uuid& uuid) {
  return {reinterpret_cast<const char*>(uuid.bytes().data()), uuid.bytes().size()};
}

}  // namespace idempotency::internal
