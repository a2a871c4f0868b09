#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_

#include <array>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/descriptor.h"

#include "core/mutex.h"

namespace idempotency::internal {

// Decides which methods' calls get a key. Thread-safe.
class KeyedMethods {
 public:
  struct Answer {
    // The call needs a key.
    bool needs_key = false;
    // Set for a method whose policy names a key_field (core/key_field.h): the call needs a key
    // in its metadata only if that field is empty.
    const google::protobuf::MethodDescriptor* with_key_field = nullptr;
  };

  // `pool` must outlive this.
  explicit KeyedMethods(const google::protobuf::DescriptorPool& pool) : pool_(pool) {}

  // The answer of the method's own proto (core/declared_policy.h): no key for KEY_NONE, so
  // without the option for NO_SIDE_EFFECTS, IDEMPOTENT and streaming methods; a key for
  // KEY_REQUIRED and KEY_OPTIONAL. A method that is not in `pool` needs a key if it is `unary`:
  // a needless key costs nothing, but without a required one the call fails. `method` is as on
  // the wire, "/payments.v1.Payments/Charge".
  Answer Of(std::string_view method, bool unary);

 private:
  Answer LookUp(std::string_view method, bool unary) const;

  const google::protobuf::DescriptorPool& pool_;
  Mutex mutex_;
  // Answers by method, for unary calls and for others: a look-up in the pool takes its lock and
  // several allocations.
  std::array<absl::flat_hash_map<std::string, Answer>, 2> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_KEYED_METHODS_H_
