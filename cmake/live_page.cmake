# The page of a live stream: its files, which src/cli/live/assets.hpp declares, and the one source that includes cpp-httplib.

set(assets ${PROJECT_SOURCE_DIR}/src/cli/live/assets)
headroom_embed(
  headroom_cli
  live_html=${assets}/live.html
  live_css=${assets}/live.css
  live_js=${assets}/live.js
  live_icon_svg=${assets}/icon.svg)
set_source_files_properties(src/cli/live/http_server.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
