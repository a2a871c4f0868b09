#ifndef IDEMPOTENCY_SERVER_ACCESS_PERMISSION_H_
#define IDEMPOTENCY_SERVER_ACCESS_PERMISSION_H_

#include <array>
#include <bitset>
#include <cstddef>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The rights of a caller in a namespace.
enum class Permission {
  // Reserve, Complete, Release, Extend. A replay contains the reply of the caller's own key.
  kWrite,
  // Get and List, without the content of replies.
  kRead,
  // The content of replies as well.
  kReadContent,
  // Resolve, Purge, Reseal, ListAudit.
  kAdmin,
};

inline constexpr std::array kAllPermissions = {Permission::kWrite, Permission::kRead,
                                               Permission::kReadContent, Permission::kAdmin};

// As in the configuration file.
constexpr absl::string_view PermissionName(Permission permission) {
  constexpr std::array<absl::string_view, kAllPermissions.size()> kNames = {
      "WRITE", "READ", "READ_CONTENT", "ADMIN"};
  return kNames.at(static_cast<std::size_t>(permission));
}

class Permissions {
 public:
  constexpr Permissions() = default;
  static Permissions All() {
    Permissions all;
    all.bits_.set();
    return all;
  }

  void Add(Permission permission) { bits_.set(static_cast<std::size_t>(permission)); }
  void Add(const Permissions& others) { bits_ |= others.bits_; }
  bool Has(Permission permission) const { return bits_.test(static_cast<std::size_t>(permission)); }

 private:
  std::bitset<kAllPermissions.size()> bits_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_PERMISSION_H_
