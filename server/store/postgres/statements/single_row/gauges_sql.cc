#include "server/store/postgres/statements/single_row/sql.h"

namespace idempotency::internal::single_row_sql {

const std::string_view kGauges = R"sql(
-- statement: open_for_long
-- Each returns state, created_at, lease_until.
SELECT t.state, t.created_at, t.lease_until FROM records t WHERE t.open_for_long
ORDER BY t.created_at LIMIT {newest}

-- statement: newest_ordered
SELECT t.state, t.created_at, t.lease_until FROM records t
WHERE t.id < '80000000-0000-0000-0000-000000000000' ORDER BY t.id DESC LIMIT {newest}

-- statement: newest_hashed
SELECT t.state, t.created_at, t.lease_until FROM records t
WHERE t.id >= '80000000-0000-0000-0000-000000000000'
ORDER BY t.created_at DESC, t.id DESC LIMIT {newest}

-- statement: count_unknown
SELECT t.state FROM records t WHERE t.watched ORDER BY t.created_at LIMIT {max_counted_unknown}
)sql";

}  // namespace idempotency::internal::single_row_sql
