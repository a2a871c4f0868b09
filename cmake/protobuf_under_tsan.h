// Included before everything else in ThreadSanitizer builds. protobuf's map fields have two more
// members there, which the system's library, built without the sanitizer, does not have: the first
// use of a map through reflection reads the wrong bytes. Here they get the library's layout.
#ifndef IDEMPOTENCY_CMAKE_PROTOBUF_UNDER_TSAN_H_
#define IDEMPOTENCY_CMAKE_PROTOBUF_UNDER_TSAN_H_

// The headers that map_field.h includes stay unchanged under the sanitizer.
// clang-format off
#include <atomic>
#include <functional>
#include <memory>
#include <google/protobuf/map_entry.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
// clang-format on

#endif  // IDEMPOTENCY_CMAKE_PROTOBUF_UNDER_TSAN_H_
