#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_TRACEPARENT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_TRACEPARENT_H_

#include <string>
#include <string_view>

#include "google/protobuf/map.h"

#include "tracing/trace_context.h"

namespace idempotency::internal {

// True for a valid traceparent: version "-" trace id "-" parent id "-" flags in lower-case hex,
// ids not zero, version not ff; further parts of a later version are visible ASCII. So it is
// usable as a label. Source: W3C Trace Context, section 3.2.
bool IsTraceparent(std::string_view value);

// The label's value; "" if there is none.
const std::string& TraceparentOf(const google::protobuf::Map<std::string, std::string>& labels);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_TRACEPARENT_H_
