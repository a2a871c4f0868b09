#include "interceptors/client/keyed_methods.h"

#include <algorithm>

#include "absl/strings/string_view.h"

#include "core/declared_policy.h"

namespace idempotency::internal {
namespace {

// More methods than any program has stubs for. A proxy that forwards arbitrary methods must not
// fill its memory with their names.
constexpr std::size_t kMaxKnown = 4096;

}  // namespace

KeyedMethods::Answer KeyedMethods::Of(std::string_view method, bool unary) {
  // The map's type of view: abseil's is not always the standard's.
  const absl::string_view name(method.data(), method.size());
  {
    MutexLock lock(mutex_);
    const auto& known = known_.at(unary ? 1 : 0);
    if (const auto it = known.find(name); it != known.end()) return it->second;
  }
  const Answer answer = LookUp(method, unary);
  MutexLock lock(mutex_);
  auto& known = known_.at(unary ? 1 : 0);
  if (known.size() < kMaxKnown) known.emplace(name, answer);
  return answer;
}

KeyedMethods::Answer KeyedMethods::LookUp(std::string_view method, bool unary) const {
  if (method.empty() || method.front() != '/') return {unary};
  std::string name(method.substr(1));
  std::replace(name.begin(), name.end(), '/', '.');
  const google::protobuf::MethodDescriptor* descriptor = pool_.FindMethodByName(name);
  if (descriptor == nullptr) return {unary};
  const absl::StatusOr<v1::Policy> declared = DeclaredPolicy(descriptor->options());
  if (!declared.ok()) return {unary};
  const bool needs_key = KeyRule(*descriptor, *declared) != v1::Policy::KEY_NONE;
  return {needs_key, needs_key && !declared->key_field().empty() ? descriptor : nullptr};
}

}  // namespace idempotency::internal
