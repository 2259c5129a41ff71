# The files of the page of a live stream, which src/cli/live/assets.hpp declares.

set(assets ${PROJECT_SOURCE_DIR}/src/cli/live/assets)
headroom_embed(
  headroom_cli
  live_html=${assets}/live.html
  live_css=${assets}/live.css
  live_js=${assets}/live.js
  live_icon_svg=${assets}/icon.svg)
