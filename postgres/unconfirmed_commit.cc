#include "postgres/unconfirmed_commit.h"

namespace idempotency::internal {

bool IsCommitUnconfirmed(std::string_view notice) {
  return notice.find("SyncRepWaitForLSN") != std::string_view::npos ||
         notice.find("synchronous replication") != std::string_view::npos;
}

}  // namespace idempotency::internal
