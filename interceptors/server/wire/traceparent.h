#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_TRACEPARENT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_TRACEPARENT_H_

#include <string>
#include <string_view>

#include "google/protobuf/map.h"

namespace idempotency::internal {

// The metadata entry of W3C Trace Context, and the label that keeps the first
// attempt's with the record.
inline constexpr std::string_view kTraceparent = "traceparent";

// True for a traceparent that leads somewhere: version "-" trace id "-" parent
// id "-" flags in lower-case hex, ids not zero, version not ff; what a later version
// has behind that is visible ASCII. So it is a label as it stands. Source: W3C Trace
// Context, section 3.2.
bool IsTraceparent(std::string_view value);

// The label's value; "" if there is none.
const std::string& TraceparentOf(const google::protobuf::Map<std::string, std::string>& labels);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_TRACEPARENT_H_
