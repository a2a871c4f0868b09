#ifndef GRPC_IDEMPOTENCY_CLIENT_KEY_STORE_H_
#define GRPC_IDEMPOTENCY_CLIENT_KEY_STORE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace idempotency {

// The key of a piece of work, for clients that must survive a restart. The
// application names its work, once and for all, by what it is ("order-42/charge"),
// so that it finds the name again after a crash; the store remembers which key
// goes with the name.
//
//   1. KeyFor(work)      the key is durable before it is first sent
//   2. the call          with that key, as often as needed
//   3. (the application) writes down that the work is done, durably
//   4. Forget(work, key)
//
// The overload of CallWithRetries that takes a KeyStore does these in this
// order. What can go wrong in between:
//
// - A crash between 1 and 2, or in 2: the next run gets the same key. If the
//   operation happened, it gets its reply; if not, it happens now.
// - A crash between 2 and 3: the same, and the reply is a replay.
// - A crash between 3 and 4: the application finds the work done and does not
//   call. The key is left over: see Unfinished().
// - 4 before 3 is the mistake to avoid: after a crash in between, the work would
//   begin again under a new key, and happen twice. For the same reason a work's
//   name is used once; a second charge of order 42 has another name.
// - Two processes with the same work get the same key, whoever comes first: one
//   operation. Each looks whether the work is done (3) before it begins.
// - A key that outlived the service's window (24 h) is refused with KEY_EXPIRED
//   if the service does not remember it: it may have run. Find out, by a read of
//   the service's own, whether it did. If it did, go on with 3. If not, Forget
//   the old key: the next KeyFor makes a new one. Forget names the key, so that
//   of two processes that do this, the second does not forget the first's new
//   one.
//
// Every failure is of the catalogue: UNAVAILABLE / STORE_UNAVAILABLE (the store
// could not be read or written: send nothing), or INVALID_ARGUMENT /
// REQUEST_INVALID for the name of a work that is empty or longer than
// limits::kMaxWorkBytes.
//
// Thread-safe.
class KeyStore {
 public:
  virtual ~KeyStore() = default;

  // The key that belongs to `work`: the stored one, or, for work that is not
  // known, a new one (a UUIDv7), stored durably before this returns. Blocks.
  virtual absl::StatusOr<std::string> KeyFor(std::string_view work) = 0;

  // The work is done, and the application has written that down. OK also if
  // `work` is not known or has another key by now, which is left alone. Blocks.
  virtual absl::Status Forget(std::string_view work, std::string_view key) = 0;

  struct Entry {
    std::string work;
    std::string key;
    // When the key was made, by the clock of the process that made it.
    absl::Time created_at;
  };
  // Every work that has a key, oldest first: what was under way when a process
  // died, to be gone on with, or to be forgotten if it is done. Blocks.
  virtual absl::StatusOr<std::vector<Entry>> Unfinished() = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_KEY_STORE_H_
