#include "server/files/memory_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>

namespace idempotency::internal {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct stat Look(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return found;
}

TEST(MemoryFileTest, ItsPathReadsWhatItHolds) {
  const auto file = MemoryFile::Make("first");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Read(file->path()), "first");
  EXPECT_EQ(Read(file->path()), "first");
  EXPECT_EQ(Look(file->path()).st_mode & 0777U, 0600U);
}

TEST(MemoryFileTest, IsReplacedInOneStep) {
  auto file = MemoryFile::Make("first").value();
  const std::string path = file.path();
  std::ifstream opened(path);
  const auto before = Look(path).st_mtime;
  ASSERT_TRUE(file.Replace("second").ok());
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(Read(path), "second");
  EXPECT_GT(Look(path).st_mtime, before);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(opened), {}), "first");
}

}  // namespace
}  // namespace idempotency::internal
