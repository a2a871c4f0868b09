#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_ROLES_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_ROLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/postgres/connection/connection.h"

namespace idempotency::internal {

// The privileges of a role on one table, as GRANT writes them: "SELECT, INSERT".
struct PostgresTablePrivileges {
  std::string_view table;
  std::string_view privileges;
};

// One of the roles that a schema is used with. A role's name is the prefix of the installation
// and "_" and its suffix.
struct PostgresRole {
  std::string_view suffix;
  absl::Span<const PostgresTablePrivileges> tables;
};

// What the calls of guarded methods need; the sweep and the end of UNKNOWN records;
// administrators; a daemon that only reads.
extern const PostgresRole kPostgresAppRole;
extern const PostgresRole kPostgresSweeperRole;
extern const PostgresRole kPostgresAdminRole;
extern const PostgresRole kPostgresReaderRole;
// The four of them. The owner of the schema has no list: an owner has every right.
absl::Span<const PostgresRole* const> PostgresRoles();
// The suffix of the owner's name.
inline constexpr std::string_view kPostgresOwnerSuffix = "owner";

// The names of an installation's roles, the owner's first.
std::vector<std::string> PostgresRoleNames(const std::string& prefix);

// Makes the roles of `schema` that are missing, gives the schema and what is in it to the owner,
// and every other role its privileges and no other ones. One transaction; may be repeated.
//
//   INVALID_ARGUMENT     the prefix makes no plain names
//   FAILED_PRECONDITION  with what to do: the connection's role may not do it, or a role of such a
//                        name has rights that none of them has
//   Others               as PostgresConnection; DEADLINE_EXCEEDED and ABORTED may be repeated
absl::Status CreatePostgresRoles(PostgresConnection& connection, const std::string& schema,
                                 const std::string& prefix);

// For a migration: continues as the schema's owner if that is another role, which the connection's
// role is a member of, so that new tables belong to it too. Not where the tables of the schema have
// several owners. FAILED_PRECONDITION, with what to do, if it must not.
absl::Status ContinueAsOwner(PostgresConnection& connection, const std::string& schema);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_ROLES_H_
