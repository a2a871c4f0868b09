#ifndef IDEMPOTENCY_CORE_FIELD_MEMORY_H_
#define IDEMPOTENCY_CORE_FIELD_MEMORY_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"

namespace idempotency::internal {

// The memory of a parsed field in addition to its bytes: a string's or a small message's own size,
// and the pointer to it. Two bytes on the wire can be a field.
inline constexpr std::size_t kFieldBytes = 48;

// The memory that the fields of an encoded message take once parsed, in addition to their bytes.
struct FieldMemory {
  enum class Look {
    kWhole,
    kOverBound,
    // The bytes are not a message, or are nested deeper than protobuf's parsers take. Other damage
    // is left to the parser.
    kDamaged,
  };

  Look look = Look::kWhole;
  // Valid if `look` is kWhole.
  std::size_t bytes = 0;
};

// The memory of an empty message of the type, in addition to kFieldBytes.
using EmptyMessageBytes = absl::FunctionRef<std::size_t(const google::protobuf::Descriptor&)>;

// Adds up every field at every depth of the bytes, which are a `type`, before anything is built
// from them: kFieldBytes each, a message's own bytes, and the elements of a packed field. Unknown
// fields count as known ones. Takes no memory, and no more time than it takes to reach `most`.
FieldMemory MeasureFields(google::protobuf::io::CodedInputStream& in,
                          const google::protobuf::Descriptor& type, std::size_t most,
                          EmptyMessageBytes empty_message_bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_FIELD_MEMORY_H_
