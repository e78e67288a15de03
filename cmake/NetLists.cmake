# The lists of hosts in src/policy/net.lists/ become one source file of sp_policy.
file(GLOB lists CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/policy/net.lists/*)
set(rows "")
foreach(list IN LISTS lists)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  cmake_path(GET list FILENAME name)
  file(READ ${list} text)
  string(APPEND rows "      {\"${name}\", R\"list(${text})list\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/builtin_net_lists.cpp @ONLY CONTENT
"#include \"policy/net_lists.h\"

namespace sallyport::policy {

const std::map<std::string, std::string_view, std::less<>>& builtin_net_lists() {
  static const std::map<std::string, std::string_view, std::less<>> lists = {
@rows@  };
  return lists;
}

}  // namespace sallyport::policy
")
target_sources(sp_policy PRIVATE ${CMAKE_BINARY_DIR}/generated/builtin_net_lists.cpp)
