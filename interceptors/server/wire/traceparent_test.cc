#include "interceptors/server/wire/traceparent.h"

#include <gtest/gtest.h>

#include <string>

namespace idempotency::internal {
namespace {

TEST(TraceparentTest, TakesWhatW3cTraceContextDefines) {
  EXPECT_TRUE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  EXPECT_TRUE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"));
  // A later version may have more parts.
  EXPECT_TRUE(IsTraceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"));
}

TEST(TraceparentTest, RefusesWhatLeadsNowhere) {
  for (const char* value : {
           "",
           "00",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
       }) {
    EXPECT_FALSE(IsTraceparent(value)) << value;
  }
  // The bytes after it too: a header may contain any byte.
  const std::string later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-";
  EXPECT_TRUE(IsTraceparent(later));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string value = later + static_cast<char>(byte);
    EXPECT_EQ(IsTraceparent(value), byte > 0x20 && byte < 0x7F) << byte;
  }
  EXPECT_FALSE(IsTraceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-" +
                             std::string(300, 'x')));
}

}  // namespace
}  // namespace idempotency::internal
