#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_OPERATION_KIND_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_OPERATION_KIND_H_

#include <cstddef>
#include <iterator>
#include <string_view>

namespace idempotency::internal {

// The operations of the service.
enum class OperationKind { kReserve, kComplete, kRelease, kExtend, kGet };
inline constexpr OperationKind kAllOperationKinds[] = {
    OperationKind::kReserve, OperationKind::kComplete, OperationKind::kRelease,
    OperationKind::kExtend, OperationKind::kGet};
inline constexpr std::size_t kOperationKinds = std::size(kAllOperationKinds);

// Reservations and reads bring new work; the others end admitted work.
constexpr bool BringsWork(OperationKind kind) {
  return kind == OperationKind::kReserve || kind == OperationKind::kGet;
}

// "Reserve", "Complete" and so on: the method's name.
constexpr std::string_view OperationName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kReserve:
      return "Reserve";
    case OperationKind::kComplete:
      return "Complete";
    case OperationKind::kRelease:
      return "Release";
    case OperationKind::kExtend:
      return "Extend";
    case OperationKind::kGet:
      return "Get";
  }
  return "";
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_OPERATION_KIND_H_
