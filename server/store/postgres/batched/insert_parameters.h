#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_INSERT_PARAMETERS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_INSERT_PARAMETERS_H_

#include <vector>

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/store.h"

namespace idempotency::internal {

// The columns of `insert` that describe the records and their grants, an array each; the tokens,
// in the order of the operations, are the store's.
PostgresParameters InsertManyParameters(const std::vector<const ReserveOp*>& ops,
                                        PostgresArray tokens);

// The same columns of `insert_one`, none of which is an array.
PostgresParameters InsertOneParameters(const ReserveOp& op, const Uuid& token);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_INSERT_PARAMETERS_H_
