#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/descriptor.h"

#include "core/mutex.h"

namespace idempotency {

// Which methods' calls get a key. Thread-safe.
class KeyedMethods {
 public:
  // `pool` must outlive this.
  explicit KeyedMethods(const google::protobuf::DescriptorPool& pool) : pool_(pool) {}

  // False for methods that `pool` knows to be NO_SIDE_EFFECTS or IDEMPOTENT;
  // true for every other, also for unknown ones: a key too many costs nothing,
  // a missing one costs the call. `method` is as on the wire,
  // "/payments.v1.Payments/Charge".
  bool NeedsKey(std::string_view method);

 private:
  bool LookUp(std::string_view method) const;

  const google::protobuf::DescriptorPool& pool_;
  Mutex mutex_;
  // Answers by method: a look-up in the pool takes its lock and several
  // allocations.
  absl::flat_hash_map<std::string, bool> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_
