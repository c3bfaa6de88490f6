#include "atomic_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <string>

#include "error.h"
#include "process.h"

namespace flashbench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string fault_of(const std::string& path) {
  try {
    AtomicFile file(path);
    file.finish("text");
  } catch (const Error& error) {
    return error.what();
  }
  return "written";
}

std::size_t entries(const std::string& directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory)) ++count;
  return count;
}

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777U;
}

TEST(AtomicFile, ReplacesAndLeavesNothingElse) {
  const TemporaryDirectory directory;
  AtomicFile file(directory.file("run.json"));
  EXPECT_EQ(entries(directory.path()), 0U);
  file.write("one");
  EXPECT_EQ(read_file(directory.file("run.json")), "one");
  file.write("second, longer");
  EXPECT_EQ(read_file(directory.file("run.json")), "second, longer");
  file.finish("3");
  EXPECT_EQ(read_file(directory.file("run.json")), "3");
  EXPECT_EQ(entries(directory.path()), 1U);
  EXPECT_FALSE(file.is_stdout());
}

TEST(AtomicFile, AReaderHoldsTheOldTextWhole) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  write_file(path, std::string(1 << 20, 'a'));
  const std::ifstream reader(path);
  AtomicFile file(path);
  file.write("b");
  std::ostringstream seen;
  seen << reader.rdbuf();
  EXPECT_EQ(seen.str(), std::string(1 << 20, 'a'));
}

TEST(AtomicFile, AKillLeavesOneOfTheTexts) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  const std::string a(3 << 20, 'a');
  const std::string b(3 << 20, 'b');
  write_file(path, a);
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t child = ::fork();
    if (child == 0) {
      AtomicFile file(path);
      for (int i = 0;; ++i) file.write(i % 2 == 0 ? b : a);
    }
    ::usleep(3000 + 1500 * static_cast<unsigned>(attempt));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string text = read_file(path);
    EXPECT_TRUE(text == a || text == b) << "attempt " << attempt;
  }
}

TEST(AtomicFile, NewFilesFollowTheUmask) {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(027);
  AtomicFile(directory.file("run.json")).write("x");
  ::umask(before);
  EXPECT_EQ(mode_of(directory.file("run.json")), 0640U);
}

TEST(AtomicFile, PermissionsAreKept) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  write_file(path, "old");
  fs::permissions(path, fs::perms{0604});
  AtomicFile(path).write("new");
  EXPECT_EQ(mode_of(path), 0604U);
  EXPECT_EQ(read_file(path), "new");
}

TEST(AtomicFile, LinksAreFollowed) {
  const TemporaryDirectory directory;
  fs::create_directory(directory.file("sub"));
  write_file(directory.file("sub/target"), "old");
  fs::create_symlink("sub/target", directory.file("link"));
  fs::create_symlink("link", directory.file("link_to_link"));
  AtomicFile(directory.file("link_to_link")).write("new");
  EXPECT_TRUE(fs::is_symlink(directory.file("link_to_link")));
  EXPECT_TRUE(fs::is_symlink(directory.file("link")));
  EXPECT_EQ(read_file(directory.file("sub/target")), "new");
}

TEST(AtomicFile, ADanglingLinkGetsItsTarget) {
  const TemporaryDirectory directory;
  fs::create_symlink("target", directory.file("link"));
  AtomicFile(directory.file("link")).write("new");
  EXPECT_TRUE(fs::is_symlink(directory.file("link")));
  EXPECT_EQ(read_file(directory.file("target")), "new");
}

TEST(AtomicFile, PathsThatCannotBeWritten) {
  const TemporaryDirectory directory;
  EXPECT_THAT(fault_of(directory.path()),
              AllOf(HasSubstr(directory.path()), HasSubstr("Is a directory")));
  EXPECT_THAT(fault_of(directory.file("missing/run.json")),
              AllOf(HasSubstr("missing/run.json"), HasSubstr("No such file or directory")));
  EXPECT_THAT(fault_of(directory.file("new/")), HasSubstr("directory"));
  EXPECT_THAT(fault_of(""), HasSubstr("No such file or directory"));
  write_file(directory.file("file"), "");
  EXPECT_THAT(fault_of(directory.file("file/run.json")), HasSubstr("Not a directory"));
  fs::create_symlink("b", directory.file("a"));
  fs::create_symlink("a", directory.file("b"));
  EXPECT_THAT(fault_of(directory.file("a")), HasSubstr("symbolic links"));
}

TEST(AtomicFile, AFullDiskIsSaid) {
  EXPECT_THAT(fault_of("/dev/full"), AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST(AtomicFile, AFailedWriteKeepsTheOldText) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  write_file(path, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      AtomicFile(path).write(std::string(1 << 20, 'x'));
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("File too large") != std::string::npos ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(AtomicFile, AFifoIsWrittenOnceAtTheEnd) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] { return read_file(path); });
  AtomicFile file(path);
  file.write("first");
  file.write("second");
  file.finish("last");
  EXPECT_EQ(reader.get(), "last");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(AtomicFile, NullTakesAnything) {
  AtomicFile file("/dev/null");
  file.write("x");
  file.finish("y");
  EXPECT_FALSE(file.is_stdout());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, ADashIsStandardOutput) {
  EXPECT_TRUE(AtomicFile("-").is_stdout());
}

}  // namespace
}  // namespace flashbench
