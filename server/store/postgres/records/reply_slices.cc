#include "server/store/postgres/records/reply_slices.h"

namespace idempotency::internal {

std::vector<CompleteBatch::Indices> SliceByReplies(const CompleteBatch& batch,
                                                   const CompleteBatch::Indices& indices,
                                                   std::size_t max_bytes) {
  std::vector<CompleteBatch::Indices> slices;
  std::size_t bytes = 0;
  for (const std::size_t index : indices) {
    const std::size_t size = batch.op(index).reply.bytes.size();
    if (slices.empty() || bytes + size > max_bytes) {
      slices.emplace_back();
      bytes = 0;
    }
    slices.back().push_back(index);
    bytes += size;
  }
  return slices;
}

}  // namespace idempotency::internal
