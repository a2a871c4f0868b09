#ifndef GRPC_IDEMPOTENCY_CLIENT_SQLITE_KEY_STORE_H_
#define GRPC_IDEMPOTENCY_CLIENT_SQLITE_KEY_STORE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/client/key_store.h"

namespace idempotency {

struct SqliteKeyStoreOptions {
  // How long a new key and Forget() wait for another process that is writing, together with other
  // threads that wait for it: 0 (not at all) to 24 days. A known key and Unfinished() do not wait.
  // Then it fails with STORE_UNAVAILABLE. 5 s: each process locks the file for one commit, some
  // milliseconds.
  absl::Duration busy_timeout = absl::Seconds(5);
};

// A key store in one SQLite file on a local file system, shared by any number of processes of
// one machine. WAL with synchronous=FULL: a key that was returned survives a crash of the
// process and of the machine. A new key costs one fsync, a known one none.
//
// The file must outlive the process: not on a container's own layer. Never restore an older copy of
// it: work that was sent since then would get new keys. For work that several hosts may continue
// use a column of the work's own row, or a KeyStore over the application's database. If the file or
// its log is moved, removed or replaced meanwhile, every operation fails with STORE_UNAVAILABLE
// until they are back.
//
// Thread-safe. Must not be used in a child process that was forked while it was open.
class SqliteKeyStore final : public KeyStore {
 public:
  // Opens the file, and creates it if it does not exist; the directory must exist.
  //   FAILED_PRECONDITION  the file cannot be opened or written, is not a database, belongs to
  //                        another program or a newer version, is on a file system where
  //                        SQLite cannot have a write-ahead log, or is mounted without its
  //                        directory
  // The message is for the operator: it contains the path.
  static absl::StatusOr<std::unique_ptr<SqliteKeyStore>> Open(
      const std::string& path, const SqliteKeyStoreOptions& options = {});

  ~SqliteKeyStore() override;

  absl::StatusOr<std::string> KeyFor(std::string_view work) override;
  absl::Status Forget(std::string_view work, std::string_view key) override;
  absl::StatusOr<std::vector<Entry>> Unfinished() override;

 private:
  struct File;
  explicit SqliteKeyStore(std::unique_ptr<File> file);

  const std::unique_ptr<File> file_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_SQLITE_KEY_STORE_H_
