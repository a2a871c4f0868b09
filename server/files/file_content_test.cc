#include "server/files/file_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

TEST(FileContentTest, IsAllOfIt) {
  const testing::TempFolder folder;
  const std::string path = folder.File("content");
  const std::string bytes("a\0\r\n\xFF z", 7);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(FileContent(path).value_or("unreadable"), bytes);
}

TEST(FileContentTest, MayBeEmpty) {
  const testing::TempFolder folder;
  const std::string path = folder.File("empty");
  std::ofstream(path, std::ios::binary).flush();
  EXPECT_EQ(FileContent(path).value_or("unreadable"), "");
  EXPECT_TRUE(FileContent("/proc/self/oom_score").ok()) << "without a size";
}

TEST(FileContentTest, AFileWithoutEndIsAnError) {
  EXPECT_THAT(std::string(FileContent("/dev/zero").status().message()), HasSubstr("larger than"));
}

TEST(FileContentTest, WhatCannotBeReadIsAnError) {
  const testing::TempFolder folder;
  EXPECT_THAT(FileContent(folder.File("missing")).status().message(),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(FileContent(folder.File("")).status().message(), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace idempotency::internal
