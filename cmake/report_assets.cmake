# What a report is made of other than data: the chart library (an npm package, fetched here where scripts/bootstrap.sh
# has not done so), the functions that options name, and the style and behaviour of pages. src/report/assets.hpp
# declares it.

set(echarts ${PROJECT_SOURCE_DIR}/third_party/echarts)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/fetch_echarts.sh RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "charts need the npm package echarts, see above")
endif()

target_include_directories(headroom_report SYSTEM PRIVATE ${RSVG_INCLUDE_DIRS})
target_link_libraries(headroom_report PRIVATE ${CMAKE_DL_LIBS})
set(assets ${PROJECT_SOURCE_DIR}/src/report/assets)
# The build with long names, without its checks for developers, as the minified one is.
set(long_names ${PROJECT_BINARY_DIR}/generated/echarts_long_names.js)
file(READ ${echarts}/node_modules/echarts/dist/echarts.js text)
string(REPLACE "\"development\" !== 'production'" "false" text "${text}")
file(WRITE ${long_names}.new "${text}")
file(COPY_FILE ${long_names}.new ${long_names} ONLY_IF_DIFFERENT)
headroom_embed(
  headroom_report
  echarts_js=${echarts}/node_modules/echarts/dist/echarts.min.js
  echarts_long_names_js=${long_names}
  charts_js=${assets}/charts.js
  page_js=${assets}/page.js
  page_css=${assets}/page.css)
