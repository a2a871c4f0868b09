#ifndef IDEMPOTENCY_MIGRATIONS_MIGRATIONS_H_
#define IDEMPOTENCY_MIGRATIONS_MIGRATIONS_H_

#include <string_view>

#include "absl/types/span.h"

namespace idempotency::internal {

// One step of the Postgres schema: the files NNN_name.{up,down}.sql of this
// folder, as they were when the binary was built. A file that was released is
// never edited: the schema changes by a new number.
struct Migration {
  // 1, 2, 3 … without gaps.
  int version;
  std::string_view name;
  std::string_view up;
  std::string_view down;
  // The oldest version whose programs may serve the schema once this step is
  // applied, because all that they write and read still means the same. An upgrade
  // migrates first and replaces the daemons after it; meanwhile those of before may
  // have to start again. From the line `-- serves_from: N` of the .up.sql file;
  // without one, this version.
  int serves_from;
  // The statements of `up`, each of which ends with ";" at the end of a line, run one by
  // one, each its own transaction: so that an index can be built while traffic goes on.
  // Every one may run again, because a migration that failed starts again at the first. From the
  // line `-- outside_transaction` of the .up.sql file.
  bool outside_transaction = false;
};

// In ascending order of version.
absl::Span<const Migration> AllMigrations();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_MIGRATIONS_MIGRATIONS_H_
