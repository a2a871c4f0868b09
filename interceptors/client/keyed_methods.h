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

  // What the method's own proto says (core/declared_policy.h): false for
  // KEY_NONE, so without the option for NO_SIDE_EFFECTS, IDEMPOTENT and
  // streaming methods, true for KEY_REQUIRED and KEY_OPTIONAL. False where the
  // policy names a key_field: that key is the caller's. A method that `pool`
  // does not know needs one if it is `unary`: a key too many costs nothing, a
  // missing one costs the call. `method` is as on the wire,
  // "/payments.v1.Payments/Charge".
  bool NeedsKey(std::string_view method, bool unary);

 private:
  bool LookUp(std::string_view method, bool unary) const;

  const google::protobuf::DescriptorPool& pool_;
  Mutex mutex_;
  // Answers by method: a look-up in the pool takes its lock and several
  // allocations.
  absl::flat_hash_map<std::string, bool> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_
