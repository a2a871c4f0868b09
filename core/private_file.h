#ifndef IDEMPOTENCY_CORE_PRIVATE_FILE_H_
#define IDEMPOTENCY_CORE_PRIVATE_FILE_H_

#include <string>

namespace idempotency::internal {

// For files that only this user may read and write (0600). SQLite gives the files that it
// puts next to a database the permissions of the database.
//
// Neither ever opens an existing file: closing it would end the locks that this process has
// on it. Failures (a missing folder, another user's file) are left to the code that opens
// the file afterwards.

// Removes all permissions of other users from a file, if it exists.
void RestrictFile(const std::string& path);
// Creates it, empty, if it is missing, also through a symbolic link; nothing otherwise.
void CreatePrivateFile(const std::string& path);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_PRIVATE_FILE_H_
