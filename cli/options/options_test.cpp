#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/options/command.hpp"
#include "cli/options/layout.hpp"

namespace rdmawire::cli {
namespace {

struct Values {
  std::vector<std::string> files, tags;
  std::string output = "out.pcap";
  std::uint64_t rows = 10, size = 64 << 20;
  double seconds = 0;
  std::optional<std::uint32_t> seed;
  bool json = false, known = true, sync = false;
};

Command table(Values& v) {
  Command command;
  command.name = "tool";
  command.summary = "Test the tables.";
  command.argument("FILE", v.files, "Input files.").repeats().must_be_given();
  command.flag("--json", v.json, "Print JSON.").excludes({"--rows"});
  command.flag("--no-known", v.known, "Ignore known results.", false);
  command.option("-o,--output", "FILE", v.output, "Write to FILE. The suffix selects the format.");
  command.option("--rows", "N", v.rows, "Limit each table to N rows.").range(1, 100);
  command.size("--buffer", v.size, "Set the buffer size.");
  command.option("--seconds", "SECONDS", v.seconds, "Stop after SECONDS seconds.").positive();
  command.option("--seed", "N", v.seed, "Set the seed.").needs("--tag");
  command.option("--tag", "WORD", v.tags, "Add a tag.").separated_by(',');
  command.choice<bool>("--clocks", "MODE", v.sync, {{"estimated", false, "from packets"}, {"synchronized", true}},
                       "Set the clocks.");
  command.run = [](const Given&) { return Exit::success; };
  return command;
}

/// Exit status and standard error of a run.
std::pair<int, std::string> run_with(Values& values, std::vector<std::string> arguments) {
  std::vector<char*> argv{const_cast<char*>("tool")};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStderr();
  const int status = run(table(values), static_cast<int>(argv.size()) - 1, argv.data());
  return {status, testing::internal::GetCapturedStderr()};
}

std::string error_of(std::vector<std::string> arguments) {
  Values values;
  const auto [status, text] = run_with(values, std::move(arguments));
  EXPECT_EQ(status, 2) << text;
  return text.substr(0, text.find('\n'));
}

TEST(Options, StoresValuesOfEachType) {
  Values v;
  const auto [status, text] =
      run_with(v, {"a", "-o", "b", "--rows=0x7", "--buffer", "2G", "--seconds", "0.5", "--seed", "3", "--tag", "x,y",
                   "--tag", "z", "--no-known", "--clocks", "synchronized", "c"});
  EXPECT_EQ(status, 0) << text;
  EXPECT_EQ(v.files, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(v.output, "b");
  EXPECT_EQ(v.rows, 7u);
  EXPECT_EQ(v.size, std::uint64_t{2} << 30);
  EXPECT_EQ(v.seconds, 0.5);
  EXPECT_EQ(v.seed, 3u);
  EXPECT_EQ(v.tags, (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_FALSE(v.known);
  EXPECT_TRUE(v.sync);
}

TEST(Options, InvalidValuesAreUsageErrors) {
  EXPECT_EQ(error_of({}), "tool: missing argument FILE");
  EXPECT_EQ(error_of({"a", "--rows", "0x"}), "tool: --rows: expected a whole number from 1 to 100, got \"0x\"");
  EXPECT_EQ(error_of({"a", "--rows", "0x65"}), "tool: --rows: expected a whole number from 1 to 100, got \"0x65\"");
  EXPECT_EQ(error_of({"a", "--rows", "0"}), "tool: --rows: expected a whole number from 1 to 100, got \"0\"");
  EXPECT_EQ(error_of({"a", "--rows", "-1"}), "tool: --rows: expected a whole number from 1 to 100, got \"-1\"");
  EXPECT_EQ(error_of({"a", "--rows", "1x"}), "tool: --rows: expected a whole number from 1 to 100, got \"1x\"");
  EXPECT_EQ(error_of({"a", "--seconds", "0"}), "tool: --seconds: expected a number greater than 0, got \"0\"");
  EXPECT_EQ(error_of({"a", "--seconds", "nan"}), "tool: --seconds: expected a number greater than 0, got \"nan\"");
  EXPECT_EQ(error_of({"a", "--buffer", "9X"}),
            "tool: --buffer: expected a size such as 1000, 64K, 10M or 2G, got \"9X\"");
  for (const std::string text : {"", "x", "-5", "K", "nan", "99999999999999999999", "18446744073709551615G"})
    EXPECT_EQ(error_of({"a", "--buffer", text}),
              "tool: --buffer: expected a size such as 1000, 64K, 10M or 2G, got \"" + text + "\"");
  EXPECT_EQ(error_of({"a", "--clocks", "found"}),
            "tool: --clocks: expected one of estimated, synchronized, got \"found\"");
  EXPECT_EQ(error_of({"a", "--tag", "x", "--seed", "4294967296"}),
            "tool: --seed: expected a whole number, got \"4294967296\"");
  EXPECT_EQ(error_of({"a", "--rows"}), "tool: missing value of --rows");
}

TEST(Options, CombinationsAreChecked) {
  EXPECT_EQ(error_of({"a", "--json", "--rows", "2"}), "tool: --json cannot be used with --rows");
  EXPECT_EQ(error_of({"a", "--seed", "2"}), "tool: --seed requires --tag");
  EXPECT_EQ(error_of({"a", "--rows", "2", "--rows", "3"}), "tool: --rows may be specified only once");
}

TEST(Options, ArgumentsAreReadFromFile) {
  const std::string path = testing::TempDir() + "/arguments-" + std::to_string(::getpid());
  std::ofstream(path) << "# options of the test\n--rows 5\t--tag 'x y'\n\n  --output=\"a b\".pcap\n--tag ''\n";
  Values v;
  const std::string at = "@" + path;
  const auto [status, text] = run_with(v, {"a", at});
  EXPECT_EQ(status, 0) << text;
  EXPECT_EQ(v.rows, 5u);
  EXPECT_EQ(v.output, "a b.pcap");
  EXPECT_EQ(v.tags, (std::vector<std::string>{"x y", ""}));
  EXPECT_EQ(error_of({"a", at, "--rows", "6"}), "tool: --rows may be specified only once");
  std::ofstream(path) << "--rows 5 # --tag z\n--tag 'a # b' x#y\n";
  Values commented;
  EXPECT_EQ(run_with(commented, {at}).first, 0);
  EXPECT_EQ(commented.tags, std::vector<std::string>{"a # b"});
  EXPECT_EQ(commented.files, std::vector<std::string>{"x#y"});
  std::ofstream(path) << "a\n--rows 5\n\n--rows=x\n";
  EXPECT_THAT(error_of({at}), ::testing::EndsWith(" (" + at + ", line 4)"));
  std::ofstream(path) << "a\n# comment\n  --rwos 5\n";
  EXPECT_THAT(error_of({at}), ::testing::EndsWith("did you mean --rows? (" + at + ", line 3)"));
  std::ofstream(path) << "a 'open\n";
  EXPECT_EQ(error_of({at}), "tool: " + at + ": line 1: missing closing quote");
  Values after;
  EXPECT_EQ(run_with(after, {"--", "@/no/such"}).first, 0);
  EXPECT_EQ(after.files, std::vector<std::string>{"@/no/such"});
  EXPECT_EQ(error_of({"@/no/such"}), "tool: @/no/such: No such file or directory");
  std::filesystem::remove(path);
}

TEST(Options, UnknownOptionSuggestsSimilarName) {
  EXPECT_EQ(error_of({"a", "--jsn"}), "tool: unknown option --jsn; did you mean --json?");
  EXPECT_EQ(error_of({"a", "--quite-different"}), "tool: unknown option --quite-different");
}

/// A program whose command "test" runs without a subcommand, too.
Command with_optional_subcommand(std::string& ran, bool& json) {
  Command verify;
  verify.name = "verify";
  verify.summary = "Verify a directory.";
  verify.run = [&ran](const Given&) { return ran = "verify", Exit::success; };
  Command test;
  test.name = "test";
  test.summary = "Test a device.";
  test.flag("--json", json, "Print JSON.");
  test.run = [&ran](const Given&) { return ran = "test", Exit::success; };
  test.subcommands = {verify};
  Command root;
  root.name = "tool";
  root.summary = "Test.";
  root.subcommands = {test};
  return root;
}

TEST(Options, CommandWithRunHasOptionalSubcommands) {
  const auto run_of = [](std::vector<std::string> arguments) {
    std::string ran;
    bool json = false;
    std::vector<char*> argv{const_cast<char*>("tool")};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    testing::internal::CaptureStderr();
    const int status = run(with_optional_subcommand(ran, json), static_cast<int>(argv.size()) - 1, argv.data());
    const std::string text = testing::internal::GetCapturedStderr();
    return status == 0 ? ran : text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(run_of({"test"}), "test");
  EXPECT_EQ(run_of({"test", "--json"}), "test");
  EXPECT_EQ(run_of({"test", "verify"}), "verify");
  EXPECT_EQ(run_of({"test", "--json", "verify"}), "tool: test verify: option --json has no effect on tool test verify");
  EXPECT_EQ(run_of({"test", "check"}), "tool: test: unknown subcommand \"check\"; expected one of: verify");
  std::string ran;
  bool json = false;
  const Command root = with_optional_subcommand(ran, json);
  EXPECT_NE(help_of(root.subcommands.front(), "tool test", 80)
                .find("Usage: tool test [OPTIONS]\n       tool test COMMAND [OPTIONS]\n"),
            std::string::npos);
}

TEST(Options, TextContainsChoicesDefaultAndConditions) {
  Values v;
  Command command = table(v);
  EXPECT_EQ(command.at("--output").text(), "Write to FILE [default: out.pcap]. The suffix selects the format.");
  EXPECT_EQ(command.at("--rows").text(), "Limit each table to N rows [default: 10].");
  EXPECT_EQ(command.at("--buffer").text(), "Set the buffer size [default: 64M].");
  EXPECT_EQ(command.at("--seed").text(), "Set the seed. Requires --tag.");
  EXPECT_EQ(command.at("--tag").text(), "Add a tag. May be repeated.");
  EXPECT_EQ(command.at("--clocks").text(),
            "Set the clocks: estimated (from packets), synchronized [default: estimated].");
}

TEST(Options, HelpAlignsAndWrapsText) {
  Values v;
  Command command = table(v);
  command.examples = {{"tool a", "Read a file."}};
  command.statuses = {{"0", "success"}, {"2", "usage error"}};
  const std::string help = help_of(command, "tool", 80);
  EXPECT_NE(help.find("Usage: tool [OPTIONS] FILE...\n"), std::string::npos) << help;
  EXPECT_NE(help.find("  -o, --output FILE         Write to FILE [default: out.pcap]. The suffix\n"
                      "                            selects the format.\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("Exit status: 0 success; 2 usage error.\n"), std::string::npos) << help;
  for (std::size_t from = 0; from < help.size();) {
    const std::size_t end = help.find('\n', from);
    EXPECT_LE(end - from, 80u) << help.substr(from, end - from);
    from = end + 1;
  }
}

TEST(Options, ManPageEscapesRoff) {
  Values v;
  Command command = table(v);
  command.description = ".gz files are accepted.";
  command.examples = {{"tool 'a' \\ b", "Read."}};
  const std::string page = man_page(command, command, "tool", "2026-01-02");
  EXPECT_NE(page.find(".TH TOOL 1 2026-01-02 \"tool\" \"User Commands\"\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\n\\&.gz files are accepted.\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\ntool \\(aqa\\(aq \\e b\n"), std::string::npos) << page;
}

}  // namespace
}  // namespace rdmawire::cli
