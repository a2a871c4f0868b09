#ifndef IDEMPOTENCY_CORE_UTF8_H_
#define IDEMPOTENCY_CORE_UTF8_H_

#include <string>
#include <string_view>

namespace idempotency::internal {

// True for well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF).
bool IsUtf8(std::string_view text);
// The same, and no control characters: U+0000-U+001F, U+007F-U+009F.
bool IsUtf8WithoutControls(std::string_view text);

// `text` with every byte that is not part of well-formed UTF-8 replaced by '?'.
// protobuf refuses to parse a string field with anything else, so text of
// unknown origin passes through this function before it is put into a message.
std::string ToUtf8(std::string_view text);

// `text`, which is UTF-8, with spaces in place of control characters, one for each byte.
std::string WithoutControls(std::string text);

// The longest prefix of at most `max_bytes` that does not cut a character.
std::string_view Utf8Prefix(std::string_view text, std::size_t max_bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_UTF8_H_
