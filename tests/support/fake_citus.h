#ifndef IDEMPOTENCY_TESTS_SUPPORT_FAKE_CITUS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_FAKE_CITUS_H_

namespace idempotency::internal::testing {

// What this program uses of Citus, for a database of one server, by a superuser: the tables count
// as distributed, and stay where they are.
inline constexpr char kFakeCitus[] = R"sql(
SET allow_system_table_mods TO on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
  VALUES (99999, 'citus', 10, 'pg_catalog'::regnamespace, false, '0');
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char");
CREATE FUNCTION pg_catalog.create_distributed_table(name text, of text, colocate_with text) RETURNS void
  LANGUAGE sql AS $$ INSERT INTO pg_dist_partition VALUES (name::regclass, 'h') $$)sql";

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_FAKE_CITUS_H_
