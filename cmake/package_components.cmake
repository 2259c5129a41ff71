# Read by CPack for each kind of package: what goes into it.
set(CPACK_COMPONENTS_ALL headroom)
if(CPACK_GENERATOR STREQUAL "TXZ")
  list(APPEND CPACK_COMPONENTS_ALL third_party)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
