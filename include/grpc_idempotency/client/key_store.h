#ifndef GRPC_IDEMPOTENCY_CLIENT_KEY_STORE_H_
#define GRPC_IDEMPOTENCY_CLIENT_KEY_STORE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace idempotency {

// Keys of pieces of work, for clients that must survive a restart. The application gives each
// piece of work a permanent name from its identity ("order-42/charge"), so that it finds the
// name again after a crash; the store maps the name to its key.
//
//   1. KeyFor(work)      the key is durable before it is first sent
//   2. (the application) checks that the work is not done
//   3. the call          with that key, as often as needed
//   4. (the application) durably records that the work is done
//   5. Forget(work, key)
//
// The overload of CallWithRetries that takes a KeyStore does these in this order. The possible
// failures in between:
//
// - A crash before 3, or in it: the next run gets the same key. If the operation happened, it
//   gets its reply; if not, it happens now.
// - A crash between 3 and 4: the same, and the reply is a replay.
// - A crash between 4 and 5: the application finds the work done and does not call. The key
//   remains until then: see Unfinished().
// - Never do 5 before 4: after a crash in between, the work would start again under a new key,
//   and happen twice. For the same reason use a name once; a second charge of order 42 has
//   another name.
// - Two processes with the same work get the same key until one of them forgets it: one
//   operation. The other, later, gets a new key, but then finds the work done in 2, since 4 is
//   before 5. A check before 1 alone does not do: the work may be settled, and its key
//   forgotten, between the check and 1.
// - A key older than the service's window (24 h) is refused with KEY_EXPIRED if the service has
//   no record of it: it may have run. Find out with a read of the called service whether it
//   did. If it did, continue with 4. If not, Forget the old key, and begin again with 1: KeyFor
//   makes a new one, and 2 finds what another process has done meanwhile. Forget takes the key, so
//   that of two processes that do this, the second does not forget the first's new one.
//   CallWithRetries never forgets such a key itself.
//
// Every failure is of the catalogue: UNAVAILABLE / STORE_UNAVAILABLE (the store could not be
// read or written: send nothing), or INVALID_ARGUMENT / REQUEST_INVALID for a name of work that
// is empty or longer than limits::kMaxWorkBytes.
//
// Thread-safe.
class KeyStore {
 public:
  virtual ~KeyStore() = default;

  // Returns the key of `work`: the stored one or, for unknown work, a new one (a UUIDv7),
  // stored durably before this returns. Blocks.
  virtual absl::StatusOr<std::string> KeyFor(std::string_view work) = 0;

  // Removes the key of work that is done, after the application has recorded that. OK also if
  // `work` is unknown, or now has another key, which is kept. Blocks.
  virtual absl::Status Forget(std::string_view work, std::string_view key) = 0;

  struct Entry {
    std::string work;
    std::string key;
    // The key's creation time, by the clock of the process that made it.
    absl::Time created_at;
  };
  // All work that has a key, oldest first: work that was in progress when a process ended;
  // continue it, or forget its key if it is done. Blocks.
  virtual absl::StatusOr<std::vector<Entry>> Unfinished() = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_KEY_STORE_H_
