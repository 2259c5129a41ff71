#include "report/render/html.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/assets.hpp"
#include "report/dashboard.hpp"
#include "report/render/sha256.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(EscapeHtml, LeavesNoMarkup) {
  EXPECT_EQ(name_html("a+<b>"), "<bdi>a+<wbr>&lt;b&gt;</bdi>");
  EXPECT_EQ(escape_html(R"(<a href="x" id='y'>&)"), "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
}

TEST(ScriptJson, CannotEndItsElement) {
  const nlohmann::json value = {{"name", "</script><!--"}};
  EXPECT_THAT(script_json(value), Not(HasSubstr("<")));
  EXPECT_EQ(nlohmann::json::parse(script_json(value)), value);
}

TEST(CleanXml, ReplacesWhatXmlCannotHold) {
  EXPECT_EQ(clean_xml("a\tb\n\u00e9\u4e16\U0001F600"), "a\tb\n\u00e9\u4e16\U0001F600");
  EXPECT_EQ(clean_xml(std::string_view("a\0b\x01", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(clean_xml("\xFFx\xC3"), "\uFFFDx\uFFFD");
  EXPECT_EQ(clean_xml("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
}

TEST(CutText, CountsCharacters) {
  EXPECT_EQ(cut_text("größer", 3), "grö…");
  EXPECT_EQ(cut_text("größer", 6), "größer");
}

TEST(CutNames, KeepsTheEndsOfNamesThatBeginAlike) {
  EXPECT_EQ(cut_names({"größer als", "größer wie", "klein"}, 6),
            (std::vector<std::string>{"gr… als", "gr… wie", "klein"}));
  EXPECT_EQ(cut_names({"größer als", "größer als"}, 6), (std::vector<std::string>{"größer…", "größer…"}));
  EXPECT_EQ(cut_names({"ab 8 cdefgh one", "ab 8 cdefgh two", "ab 4 cdefgh one", "ab 4 cdefgh two"}, 9),
            (std::vector<std::string>{"ab 8…h one", "ab 8…h two", "ab 4…h one", "ab 4…h two"}));
}

TEST(WithoutWhatAllShare, LeavesWhatTellsNamesApart) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(without_what_all_share({"time by op: bf16 on a GPU", "time by op: fp8 on a GPU"}),
            (Names{"bf16 on a GPU", "fp8 on a GPU"}));
  EXPECT_EQ(without_what_all_share({"flux, 1 at once: speed", "flux, 2 at once: speed"}),
            (Names{"1 at once", "2 at once"}));
  EXPECT_EQ(without_what_all_share({"one", "one"}), (Names{"one", "one"}));
  EXPECT_EQ(without_what_all_share({"time of all", "time of all of it"}), (Names{"time of all", "time of all of it"}));
  EXPECT_EQ(without_what_all_share({"alone"}), (Names{"alone"}));
  EXPECT_EQ(without_what_all_share({"bf16", "bf16+fp8"}), (Names{"bf16", "bf16+fp8"}));
}

TEST(WithoutWhatAllShare, NeverCutsAPhrase) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(without_what_all_share({"flux, 1 image at once, 4 steps", "flux, 1 image at once, 64 steps"}),
            (Names{"4 steps", "64 steps"}));
  EXPECT_EQ(without_what_all_share({"+ graph (hoist, align declined)", "+ fp8 (hoist, align declined)"}),
            (Names{"+ graph (hoist, align declined)", "+ fp8 (hoist, align declined)"}));
  EXPECT_EQ(without_what_all_share({"a; one, of 2; b, c", "a; two, of 2; b, c"}), (Names{"one", "two"}));
}

TEST(Dashboard, HostileNamesAreTextAndNothingElse) {
  const std::string hostile = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(2)>";
  std::vector<Result> results = test::ladder_results();
  for (Result& result : results) {
    result.subject.name = hostile;
    result.tags = {hostile};
  }
  results[1].configuration.asked = {hostile};
  results[1].configuration.applied = {};
  results[1].configuration.declined = {{hostile, hostile}};
  results.push_back(test::make_peer(hostile, {1e-300, 1e300}));
  results.back().subject.name = hostile;
  ResultFile file = test::make_file(results);
  file.machine.cpu = hostile;
  const Dataset dataset = test::make_dataset({file});
  std::string page = make_dashboard(dataset, draw_charts(dataset), {});
  page.resize(page.find(echarts_js().substr(0, 100)));  // the library has its own markup
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("&lt;/script&gt;&lt;script&gt;alert(1)"), std::string::npos);
}

TEST(MakePage, RunsItsOwnScriptsAndNoOthers) {
  const std::string page = make_page("a title", "<p>body</p>");
  const std::size_t begin = page.find("script-src ") + 11;
  const std::string allowed = page.substr(begin, page.find(';', begin) - begin);
  EXPECT_THAT(allowed, Not(HasSubstr("unsafe")));
  int scripts = 0;
  for (std::size_t at = 0; (at = page.find("<script>", at)) != std::string::npos; ++scripts) {
    at += 8;
    const auto digest = sha256(page.substr(at, page.find("</script>", at) - at));
    const std::string hash = encode_base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
    EXPECT_THAT(allowed, HasSubstr("'sha256-" + hash + "'"));
  }
  EXPECT_EQ(scripts, 2);
  EXPECT_EQ(std::ranges::count(allowed, ' '), scripts - 1);
  EXPECT_EQ(page.find('\r'), std::string::npos) << "a browser hashes line feeds";
}

}  // namespace
}  // namespace headroom
