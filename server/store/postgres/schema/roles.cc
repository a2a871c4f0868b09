#include "server/store/postgres/schema/roles.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/absl_view.h"
#include "server/store/postgres/connection/sql_state.h"

namespace idempotency::internal {
namespace {

// A name of Postgres has 63 bytes.
constexpr std::size_t kMaxPrefixBytes = 63 - sizeof("_sweeper") + 1;

// SQLSTATEs of a role, or a membership, that another session made meanwhile.
constexpr absl::string_view kUniqueViolation = "23505";
constexpr absl::string_view kDuplicateObject = "42710";

constexpr PostgresTablePrivileges kAppTables[] = {
    {"records", "SELECT, INSERT, UPDATE"},
    {"checkpoints", "SELECT, INSERT, UPDATE"},
    {"commit_probe", "SELECT, INSERT, UPDATE"},
    {"schema_migrations", "SELECT"},
};
constexpr PostgresTablePrivileges kSweeperTables[] = {
    {"records", "SELECT, UPDATE, DELETE"},
    {"checkpoints", "SELECT, DELETE"},
    {"schema_migrations", "SELECT"},
};
constexpr PostgresTablePrivileges kAdminTables[] = {
    {"records", "SELECT, UPDATE, DELETE"}, {"checkpoints", "SELECT, UPDATE, DELETE"},
    {"audit_log", "SELECT, INSERT"},       {"audit_key", "SELECT"},
    {"schema_migrations", "SELECT"},
};
constexpr PostgresTablePrivileges kReaderTables[] = {
    {"records", "SELECT"},
    {"audit_log", "SELECT"},
    {"schema_migrations", "SELECT"},
};

std::string Quoted(const std::string& text) { return absl::StrCat("'", text, "'"); }

// Names are plain and need no quotes.
bool IsPlainPrefix(const std::string& prefix) {
  if (prefix.empty() || prefix.size() > kMaxPrefixBytes || absl::ascii_isdigit(prefix.front()) ||
      absl::StartsWith(prefix, "pg_")) {
    return false;
  }
  return std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

// Those of `names` that are missing. A role that is there must be as one of ours.
absl::StatusOr<std::vector<std::string>> FindMissing(PostgresConnection& connection,
                                                     const std::vector<std::string>& names) {
  const auto rows = connection.ExecuteScript(absl::StrCat(
      "SELECT rolname, rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb"
      " OR rolreplication OR rolbypassrls FROM pg_roles WHERE rolname IN (",
      absl::StrJoin(
          names, ", ",
          [](std::string* text, const std::string& name) { absl::StrAppend(text, Quoted(name)); }),
      ")"));
  if (!rows.ok()) return rows.status();
  std::vector<std::string> missing = names;
  for (int row = 0; row < rows->rows(); ++row) {
    const std::string name = rows->Text(row, 0);
    if (rows->Bool(row, 1)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the postgres role ", name,
          " exists and may log in or has another right of its own: it was not made by this "
          "program. Rename it, or set another --role_prefix"));
    }
    missing.erase(std::remove(missing.begin(), missing.end(), name), missing.end());
  }
  return missing;
}

std::string CreateStatements(const std::vector<std::string>& names) {
  return absl::StrJoin(names, " ", [](std::string* text, const std::string& name) {
    absl::StrAppend(text, "CREATE ROLE ", name, " NOLOGIN;");
  });
}

// Roles are of the whole server, and the lock of a migration is of its database: a migration of
// another one may make the same roles at the same time. ABORTED then.
absl::Status ChangeRoles(PostgresConnection& connection, const std::string& sql) {
  absl::Status failure = connection.ExecuteScript(sql).status();
  const std::string state = SqlStateOf(failure);
  if (state != kUniqueViolation && state != kDuplicateObject) return failure;
  return absl::AbortedError(failure.message());
}

absl::Status Create(PostgresConnection& connection, const std::vector<std::string>& missing) {
  if (missing.empty()) return absl::OkStatus();
  const auto role = connection.ExecuteScript(
      "SELECT current_user, rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user");
  if (!role.ok()) return role.status();
  if (!role->Bool(0, 1)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the postgres role ", role->Text(0, 0),
                     " may not create roles. As a superuser: ALTER ROLE ", role->Text(0, 0),
                     " CREATEROLE, and repeat the command; or make the roles yourself: ",
                     CreateStatements(missing)));
  }
  return ChangeRoles(connection, CreateStatements(missing));
}

// Only a member of a role can give it something.
absl::Status JoinOwner(PostgresConnection& connection, const std::string& owner) {
  const auto member = connection.ExecuteScript(
      absl::StrCat("SELECT current_user, pg_has_role(", Quoted(owner), ", 'MEMBER')"));
  if (!member.ok()) return member.status();
  if (member->Bool(0, 1)) return absl::OkStatus();
  const absl::Status joined =
      ChangeRoles(connection, absl::StrCat("GRANT ", owner, " TO CURRENT_USER"));
  if (joined.ok() || absl::IsAborted(joined)) return joined;
  return absl::FailedPreconditionError(absl::StrCat(
      "the postgres role ", member->Text(0, 0), " is not a member of ", owner,
      ". As a superuser: GRANT ", owner, " TO ", member->Text(0, 0), ", and repeat the command"));
}

// Nothing that already belongs to the owner is touched: a change of the owner locks the table.
absl::Status GiveToOwner(PostgresConnection& connection, const std::string& schema,
                         const std::string& owner) {
  const std::string others =
      absl::StrCat(" = to_regnamespace('", schema, "') AND %owner% <> '", owner, "'::regrole");
  const auto with = [&others](absl::string_view column) {
    std::string text = others;
    text.replace(text.find("%owner%"), sizeof("%owner%") - 1, std::string(column));
    return text;
  };
  const auto statements = connection.ExecuteScript(absl::StrCat(
      // The schema first: an owner of tables needs the right to create in it.
      "SELECT format('ALTER SCHEMA %I OWNER TO ", owner, "', n.nspname), 0 FROM pg_namespace n",
      " WHERE n.oid", with("n.nspowner"), " UNION ALL SELECT format('ALTER TABLE %s OWNER TO ",
      owner, "', c.oid::regclass), 1",
      " FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace", with("c.relowner"),
      " UNION ALL SELECT format('ALTER FUNCTION %s OWNER TO ", owner, "', p.oid::regprocedure), 2",
      " FROM pg_proc p WHERE p.pronamespace", with("p.proowner"), " ORDER BY 2, 1"));
  if (!statements.ok()) return statements.status();
  for (int row = 0; row < statements->rows(); ++row) {
    if (auto done = connection.ExecuteScript(statements->Text(row, 0)); !done.ok()) {
      return done.status();
    }
  }
  return absl::OkStatus();
}

absl::Status GrantPrivileges(PostgresConnection& connection, const std::string& schema,
                             const std::string& prefix) {
  const auto rows = connection.ExecuteScript(absl::StrCat(
      "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace('",
      schema, "')"));
  if (!rows.ok()) return rows.status();
  std::vector<std::string> tables;
  for (int row = 0; row < rows->rows(); ++row) tables.push_back(rows->Text(row, 0));
  std::string sql;
  for (const PostgresRole* const role : PostgresRoles()) {
    const std::string name = absl::StrCat(prefix, "_", AbslView(role->suffix));
    absl::StrAppend(&sql, "REVOKE ALL ON ALL TABLES IN SCHEMA ", schema, " FROM ", name,
                    ";REVOKE ALL ON SCHEMA ", schema, " FROM ", name, ";GRANT USAGE ON SCHEMA ",
                    schema, " TO ", name, ";");
    for (const PostgresTablePrivileges& on : role->tables) {
      // An older version of the schema has fewer tables.
      if (std::find(tables.begin(), tables.end(), on.table) == tables.end()) continue;
      absl::StrAppend(&sql, "GRANT ", AbslView(on.privileges), " ON ", schema, ".",
                      AbslView(on.table), " TO ", name, ";");
    }
  }
  return connection.ExecuteScript(sql).status();
}

absl::Status CreateAndGrant(PostgresConnection& connection, const std::string& schema,
                            const std::string& prefix) {
  const std::vector<std::string> names = PostgresRoleNames(prefix);
  const absl::StatusOr<std::vector<std::string>> missing = FindMissing(connection, names);
  if (!missing.ok()) return missing.status();
  if (absl::Status status = Create(connection, *missing); !status.ok()) return status;
  if (absl::Status status = JoinOwner(connection, names.front()); !status.ok()) return status;
  if (absl::Status status = GiveToOwner(connection, schema, names.front()); !status.ok()) {
    return status;
  }
  return GrantPrivileges(connection, schema, prefix);
}

}  // namespace

const PostgresRole kPostgresAppRole = {"app", kAppTables};
const PostgresRole kPostgresSweeperRole = {"sweeper", kSweeperTables};
const PostgresRole kPostgresAdminRole = {"admin", kAdminTables};
const PostgresRole kPostgresReaderRole = {"reader", kReaderTables};

absl::Span<const PostgresRole* const> PostgresRoles() {
  static constexpr const PostgresRole* kAll[] = {&kPostgresAppRole, &kPostgresSweeperRole,
                                                 &kPostgresAdminRole, &kPostgresReaderRole};
  return kAll;
}

std::vector<std::string> PostgresRoleNames(const std::string& prefix) {
  std::vector<std::string> names = {absl::StrCat(prefix, "_", AbslView(kPostgresOwnerSuffix))};
  for (const PostgresRole* const role : PostgresRoles()) {
    names.push_back(absl::StrCat(prefix, "_", AbslView(role->suffix)));
  }
  return names;
}

absl::Status CreatePostgresRoles(PostgresConnection& connection, const std::string& schema,
                                 const std::string& prefix) {
  if (!IsPlainPrefix(prefix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role_prefix: lower-case letters, digits and _ only, at most ",
                     kMaxPrefixBytes, ", not pg_…"));
  }
  // Of the login, not of the schema's owner, as which a migration continues.
  if (auto done = connection.ExecuteScript("RESET ROLE"); !done.ok()) return done.status();
  if (absl::Status status = connection.Begin(); !status.ok()) return status;
  const absl::Status done = CreateAndGrant(connection, schema, prefix);
  const absl::Status ended = done.ok() ? connection.Commit() : connection.Rollback();
  return done.ok() ? ended : done;
}

absl::Status ContinueAsOwner(PostgresConnection& connection, const std::string& schema) {
  const auto owner = connection.ExecuteScript(
      absl::StrCat("SELECT format('%I', pg_get_userbyid(n.nspowner)), current_user"
                   " FROM pg_namespace n WHERE n.nspname = '",
                   schema,
                   "' AND n.nspowner <> current_user::regrole"
                   " AND pg_has_role(n.nspowner, 'MEMBER')"
                   " AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid"
                   "  AND c.relkind IN ('r', 'p'))"
                   " AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid"
                   "  AND c.relkind IN ('r', 'p') AND c.relowner <> n.nspowner)"));
  if (!owner.ok()) return owner.status();
  if (owner->rows() == 0) return absl::OkStatus();
  const auto set = connection.ExecuteScript(absl::StrCat("SET ROLE ", owner->Text(0, 0)));
  if (set.ok() || connection.lost()) return set.status();
  return absl::FailedPreconditionError(
      absl::StrCat("the postgres role ", owner->Text(0, 1), " may not act as ", owner->Text(0, 0),
                   ", which owns the schema ", schema, ". As a superuser: GRANT ",
                   owner->Text(0, 0), " TO ", owner->Text(0, 1)));
}

}  // namespace idempotency::internal
