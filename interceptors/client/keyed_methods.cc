#include "interceptors/client/keyed_methods.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.pb.h"

namespace idempotency {
namespace {

// More methods than any program has stubs for. A proxy that forwards whatever
// method it is asked for must not fill its memory with names.
constexpr std::size_t kMaxKnown = 4096;

}  // namespace

bool KeyedMethods::NeedsKey(std::string_view method) {
  // The map's own kind of view: abseil's is not the standard's everywhere.
  const absl::string_view name(method.data(), method.size());
  {
    MutexLock lock(mutex_);
    if (const auto it = known_.find(name); it != known_.end()) return it->second;
  }
  const bool needs_key = LookUp(method);
  MutexLock lock(mutex_);
  if (known_.size() < kMaxKnown) known_.emplace(name, needs_key);
  return needs_key;
}

bool KeyedMethods::LookUp(std::string_view method) const {
  if (method.empty() || method.front() != '/') return true;
  std::string name(method.substr(1));
  std::replace(name.begin(), name.end(), '/', '.');
  const google::protobuf::MethodDescriptor* descriptor = pool_.FindMethodByName(name);
  if (descriptor == nullptr) return true;
  const auto level = descriptor->options().idempotency_level();
  return level != google::protobuf::MethodOptions::NO_SIDE_EFFECTS &&
         level != google::protobuf::MethodOptions::IDEMPOTENT;
}

}  // namespace idempotency
