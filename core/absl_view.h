#ifndef IDEMPOTENCY_CORE_ABSL_VIEW_H_
#define IDEMPOTENCY_CORE_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// For calls into abseil. Debian 12 builds it for C++14, where its string_view
// is a separate class to which std::string_view does not convert; built for
// C++17 the two are one type and this does nothing.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_ABSL_VIEW_H_
