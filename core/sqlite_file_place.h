#ifndef IDEMPOTENCY_CORE_SQLITE_FILE_PLACE_H_
#define IDEMPOTENCY_CORE_SQLITE_FILE_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace idempotency::internal {

// Whether a file is mounted alone: what is made beside it is outside of that mount. False on Linux
// before 5.8, which does not report it.
bool IsMountedAlone(const std::string& file);

// The files of an open database (itself, its log, and the index of that), which belong together
// under their names. Immutable.
class SqliteFilePlace {
 public:
  // As they are now. One that does not exist is not watched.
  static SqliteFilePlace Of(const std::string& database);

  // The first that is gone, or has another file in its place.
  std::optional<std::string> FindMoved() const;

 private:
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };
  struct Placed {
    std::string path;
    std::optional<Identity> identity;
  };

  static std::optional<Identity> IdentityOf(const std::string& path);

  std::vector<Placed> files_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_SQLITE_FILE_PLACE_H_
