#ifndef IDEMPOTENCY_SERVER_SEALING_RECORD_IDENTITY_H_
#define IDEMPOTENCY_SERVER_SEALING_RECORD_IDENTITY_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// The bytes that bind what is sealed to one record and one use: `use`, the four parts of the key,
// each behind its length, and the record's id. `more` follows.
std::string RecordIdentity(std::string_view use, const RecordKey& key, const RecordId& id,
                           std::initializer_list<std::string_view> more = {});

// The 16 bytes of an id or a token; a view into it.
std::string_view BytesOf(const Uuid& uuid);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_RECORD_IDENTITY_H_
