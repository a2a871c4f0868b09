#ifndef IDEMPOTENCY_POSTGRES_UNCONFIRMED_COMMIT_H_
#define IDEMPOTENCY_POSTGRES_UNCONFIRMED_COMMIT_H_

#include <string_view>

namespace idempotency::internal {

// Whether a notice of Postgres reports that the wait of a commit for the
// synchronous standby was cancelled: the transaction is committed here, and a
// failover may still revert it. The statement itself reports success, so such a
// notice is the only sign. It is recognised by its text, or, with verbose notices,
// by the function that it comes from, in any language of the server.
//
// https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION
bool IsCommitUnconfirmed(std::string_view notice);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_UNCONFIRMED_COMMIT_H_
