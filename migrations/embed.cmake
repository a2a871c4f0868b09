# cmake -DOUTPUT=file.cc -DSOURCE_DIR=dir -DMIGRATIONS=001_a,002_b -P embed.cmake
# Writes the migrations into one C++ file.
string(REPLACE "," ";" migrations "${MIGRATIONS}")
set(rows "")
set(expected 0)
foreach(migration IN LISTS migrations)
  math(EXPR expected "${expected} + 1")
  if(NOT migration MATCHES "^([0-9][0-9][0-9])_([a-z0-9_]+)$")
    message(FATAL_ERROR "${migration}: expected NNN_name")
  endif()
  set(name "${CMAKE_MATCH_2}")
  string(REGEX REPLACE "^0+" "" version "${CMAKE_MATCH_1}")
  if(NOT version EQUAL expected)
    message(FATAL_ERROR "${migration}: expected version ${expected}; versions have no gaps")
  endif()
  file(READ "${SOURCE_DIR}/${migration}.up.sql" up)
  file(READ "${SOURCE_DIR}/${migration}.down.sql" down)
  set(serves_from ${version})
  if(up MATCHES "-- serves_from: ([0-9]+)\n")
    set(serves_from ${CMAKE_MATCH_1})
  endif()
  set(outside_transaction false)
  if(up MATCHES "-- outside_transaction\n")
    set(outside_transaction true)
  endif()
  string(APPEND rows "    {${version}, \"${name}\",\n     R\"sql(${up})sql\",\n     R\"sql(${down})sql\",\n     ${serves_from}, ${outside_transaction}},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from migrations/*.sql.
#include \"migrations/migrations.h\"

namespace idempotency::internal {
namespace {

constexpr Migration kMigrations[] = {
${rows}};

}  // namespace

absl::Span<const Migration> AllMigrations() { return kMigrations; }

}  // namespace idempotency::internal
")
