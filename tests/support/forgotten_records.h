#ifndef IDEMPOTENCY_TESTS_SUPPORT_FORGOTTEN_RECORDS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_FORGOTTEN_RECORDS_H_

#include <string>

namespace idempotency::internal::testing {

// Writes `count` records to a SQLite file, which it creates: reserved a day and more ago and
// forgotten long enough for a sweep to remove them. No process may have the file open. Aborts if it
// cannot.
void WriteForgottenRecords(const std::string& path, int count);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_FORGOTTEN_RECORDS_H_
