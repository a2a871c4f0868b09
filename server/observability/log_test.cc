#include "server/observability/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

#include "core/testing/manual_clock.h"
#include "core/utf8.h"
#include "server/limits.h"
#include "server/observability/grpc_log.h"
#include "server/observability/log_writer.h"

namespace idempotency::internal {
namespace {

using ::testing::AnyOf;

// A rare error of one file is not lost behind many of another.
TEST(GrpcErrorThrottleTest, AdmitsOneErrorPerSecondOfEachFile) {
  ManualClock clock;
  GrpcErrorThrottle throttle(clock);
  EXPECT_EQ(throttle.Admit("handshaker.cc"), 0);
  EXPECT_EQ(throttle.Admit("handshaker.cc"), std::nullopt);
  EXPECT_EQ(throttle.Admit("handshaker.cc"), std::nullopt);
  EXPECT_EQ(throttle.Admit("server.cc"), 0);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(throttle.Admit("handshaker.cc"), 2);
}

TEST(LogTest, WritesPairs) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "serving",
                          {{"listen", "127.0.0.1:7411"}, {"connections", 4}}),
            "event=\"serving\" listen=127.0.0.1:7411 connections=4");
}

TEST(LogTest, QuotesWhatWouldBreakALine) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "it \"failed\"",
                          {{"a", "two words"},
                           {"b", ""},
                           {"c", "x=y"},
                           {"d", "line\nevent=\"forged\""},
                           {"e", "back\\slash"}}),
            "event=\"it \\\"failed\\\"\" a=\"two words\" b=\"\" c=\"x=y\" "
            "d=\"line\\nevent=\\\"forged\\\"\" e=\"back\\\\slash\"");
}

TEST(LogTest, WritesAnObject) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, "serving", {{"listen", "[::1]:7411"}, {"streams", 4}}),
            R"("message":"serving","listen":"[::1]:7411","streams":"4")");
}

TEST(LogTest, NothingEndsAStringOfAnObject) {
  const std::string hostile = "\"}\n{\"message\":\"forged\", \\ \x1b[2J \xff \xe2\x80\xa8 \x7f end";
  const std::string line = absl::StrCat(
      "{", FormatLogLine(LogFormat::kJson, hostile, {{"field", hostile}, {"empty", ""}}), "}");
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  google::protobuf::Struct parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &parsed).ok()) << line;
  std::string expected = hostile;
  expected[expected.find('\xff')] = '?';
  EXPECT_EQ(parsed.fields().size(), 3);
  EXPECT_EQ(parsed.fields().at("message").string_value(), expected);
  EXPECT_EQ(parsed.fields().at("field").string_value(), expected);
  EXPECT_EQ(parsed.fields().at("empty").string_value(), "");
}

std::map<std::string, std::string> ParseObject(const std::string& line) {
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage("{" + line + "}", &parsed).ok()) << line;
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : parsed.fields()) fields[name] = value.string_value();
  return fields;
}

// Of this, each byte is escaped in another way, and characters take one to four bytes.
std::string LongText(std::size_t shift) {
  std::string text(shift, 'x');
  while (text.size() < 2 * limits::kMaxLogLineBytes) {
    text += "a\"\\\n\x1b\x7f\xff \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\x91=";
  }
  return text;
}

TEST(LogTest, CutsALongLineBetweenCharacters) {
  // Every place at which a cut may fall.
  for (std::size_t shift = 0; shift < 40; ++shift) {
    const std::string text = LongText(shift);
    for (const bool in_event : {false, true}) {
      const std::string event = in_event ? text : "short";
      const std::string json =
          FormatLogLine(LogFormat::kJson, event, {{"before", "1"}, {"long", text}, {"after", "2"}});
      EXPECT_LE(json.size(), limits::kMaxLogLineBytes);
      EXPECT_GT(json.size(), limits::kMaxLogLineBytes - 100);
      EXPECT_TRUE(IsUtf8(json));
      const std::map<std::string, std::string> fields = ParseObject(json);
      EXPECT_EQ(fields.at("cut"), "true");
      EXPECT_EQ(fields.count("after"), 0);
      EXPECT_EQ(fields.count("before"), in_event ? 0 : 1);
      const std::string& cut = fields.at(in_event ? "message" : "long");
      EXPECT_EQ(cut, ToUtf8(text).substr(0, cut.size()));

      const std::string pairs = FormatLogLine(LogFormat::kText, event, {{"long", text}});
      EXPECT_LE(pairs.size(), limits::kMaxLogLineBytes);
      EXPECT_EQ(pairs.substr(pairs.size() - 10), "\" cut=true");
      EXPECT_TRUE(IsUtf8(pairs));
    }
  }
}

TEST(LogTest, ALineThatFitsIsNotCut) {
  const std::string value(limits::kMaxLogLineBytes - 100, 'x');
  const std::string line = FormatLogLine(LogFormat::kText, "e", {{"long", value}, {"after", "2"}});
  EXPECT_EQ(line, "event=\"e\" long=" + value + " after=2");
}

TEST(LogTest, ManyFieldsStayWithinALine) {
  const std::string value(limits::kMaxLogLineBytes / 2 - 10, 'x');
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line =
        FormatLogLine(format, "e", {{"a", value}, {"b", value}, {"c", value}, {"d", value}});
    EXPECT_LE(line.size(), limits::kMaxLogLineBytes);
    if (format != LogFormat::kJson) continue;
    EXPECT_EQ(ParseObject(line).count("cut"), 1);
  }
}

// A pipe that is full.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends_[1], "x", 1) == 1) ++filled_;
  }
  ~FullPipe() {
    for (const int end : ends_) close(end);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  int written_end() const { return ends_[1]; }
  // What came after it was full, once it ends with `end`.
  std::string ReadUntil(const std::string& end) const {
    std::string text;
    while (text.size() < filled_ + end.size() || text.substr(text.size() - end.size()) != end) {
      std::array<char, 4096> bytes{};
      const ssize_t count = read(ends_[0], bytes.data(), bytes.size());
      if (count > 0) text.append(bytes.data(), static_cast<std::size_t>(count));
      if (count < 0) std::this_thread::yield();
    }
    return text.substr(filled_);
  }

 private:
  std::array<int, 2> ends_{};
  std::size_t filled_ = 0;
};

std::string LeftOut(std::size_t lines) { return absl::StrCat("left out: ", lines, "\n"); }

TEST(LogWriterTest, AReaderThatDoesNotReadCostsTheOldestLines) {
  const FullPipe pipe;
  LogWriter writer(pipe.written_end(), &LeftOut, 2);
  for (const char* const line : {"a\n", "b\n", "c\n", "d\n", "e\n"}) writer.Write(line);
  const std::string text = pipe.ReadUntil("d\ne\n");
  // The thread may have taken a line before there were more than two.
  EXPECT_THAT(text, AnyOf("left out: 3\nd\ne\n", "a\nleft out: 2\nd\ne\n"));
  EXPECT_TRUE(writer.Flush(absl::Seconds(20)));
}

// The files of this process have at most that many bytes: more are refused, as by a full disk.
void LimitFiles(rlim_t bytes) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(LogWriterTest, AFullDiskCostsLinesAndJoinsNone) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ASSERT_NE(file, nullptr);
  const auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit unlimited{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  LogWriter writer(fileno(file.get()), &LeftOut);
  LimitFiles(10);
  for (const char* const line : {"12345678\n", "cut\n", "lost\n", "lost\n"}) writer.Write(line);
  EXPECT_TRUE(writer.Flush(absl::Seconds(20)));
  LimitFiles(unlimited.rlim_cur);
  for (const char* const line : {"a\n", "b\n"}) writer.Write(line);
  EXPECT_TRUE(writer.Flush(absl::Seconds(20)));
  signal(SIGXFSZ, before);

  std::rewind(file.get());
  std::array<char, 100> text{};
  const std::size_t size = std::fread(text.data(), 1, text.size(), file.get());
  EXPECT_EQ(std::string(text.data(), size), "12345678\nc\nleft out: 3\na\nb\n");
}

TEST(LogWriterTest, AReaderThatDoesNotReadDelaysNoEnd) {
  const FullPipe pipe;
  LogWriter writer(pipe.written_end(), &LeftOut);
  writer.Write("a\n");
  EXPECT_FALSE(writer.Flush(absl::Milliseconds(1)));
  EXPECT_FALSE(writer.Close(absl::Milliseconds(1)));
  writer.Write("discarded\n");
}

TEST(LogWriterTest, WritesALineThatIsLargerThanAPipe) {
  const FullPipe pipe;
  LogWriter writer(pipe.written_end(), &LeftOut);
  const std::string line(1024 * 1024, 'y');
  writer.Write(line + "\n");
  EXPECT_EQ(pipe.ReadUntil("\n"), line + "\n");
  EXPECT_TRUE(writer.Close(absl::Seconds(20)));
}

TEST(LogDeathTest, TheLinesBeforeAnAbortAreWritten) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        StartLog(LogLevel::kInfo);
        Log(LogLevel::kError, "last words");
        std::abort();
      },
      "last words");
}

TEST(LogDeathTest, AnAbortByAnotherProcessEndsThisOne) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        StartLog(LogLevel::kInfo);
        Log(LogLevel::kError, "last words");
        kill(getpid(), SIGABRT);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGABRT), "last words");
}

}  // namespace
}  // namespace idempotency::internal
