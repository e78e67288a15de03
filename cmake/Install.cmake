# cmake --install: programs, libsallyport with its headers, find_package(Sallyport) and pkg-config, manual pages
# and shell completion.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The programs find each other beside themselves.
get_property(programs DIRECTORY ${CMAKE_SOURCE_DIR}/apps PROPERTY BUILDSYSTEM_TARGETS)
install(TARGETS ${programs} RUNTIME)

# One archive out of what a client and a plugin need.
set(for_plugins platform platform_storage operations embedded file_store file_names memory_cache)
list(TRANSFORM for_plugins REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/platform/\\1.cpp")
add_library(sallyport_client STATIC $<TARGET_OBJECTS:sp_base> $<TARGET_OBJECTS:sp_os> $<TARGET_OBJECTS:sp_wire>
                                    $<TARGET_OBJECTS:sp_client> ${for_plugins})
target_include_directories(sallyport_client PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_target_properties(sallyport_client PROPERTIES OUTPUT_NAME sallyport EXPORT_NAME Sallyport LINKER_LANGUAGE CXX)
target_compile_features(sallyport_client INTERFACE cxx_std_20)
target_include_directories(sallyport_client INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(sallyport_client INTERFACE OpenSSL::Crypto Threads::Threads)
install(TARGETS sallyport_client EXPORT Sallyport ARCHIVE)

# Among others' headers ours carry our name: base/... is included as sallyport/base/..., and TRY is SALLYPORT_TRY.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/src
     ${CMAKE_SOURCE_DIR}/src/base/*.h ${CMAKE_SOURCE_DIR}/src/wire/*.h ${CMAKE_SOURCE_DIR}/src/client/*.h
     ${CMAKE_SOURCE_DIR}/src/platform/platform.h ${CMAKE_SOURCE_DIR}/src/platform/operations.h)
# Internals that stand beside them.
list(FILTER public_headers EXCLUDE REGEX "^(base/fault_point|wire/(json_reader|plain))[.]h$")
install(CODE "file(REMOVE_RECURSE \"${CMAKE_BINARY_DIR}/include\")
  foreach(name ${public_headers})
    file(READ \"${CMAKE_SOURCE_DIR}/src/\${name}\" text)
    string(REGEX REPLACE \"#include \\\"([a-z]+)/\" \"#include \\\"sallyport/\\\\1/\" text \"\${text}\")
    string(REGEX REPLACE \"([^A-Z_])((CO_)?TRY\\\\()\" \"\\\\1SALLYPORT_\\\\2\" text \"\${text}\")
    file(WRITE \"${CMAKE_BINARY_DIR}/include/sallyport/\${name}\" \"\${text}\")
  endforeach()")
install(DIRECTORY ${CMAKE_BINARY_DIR}/include/sallyport DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sallyport)
install(EXPORT Sallyport NAMESPACE Sallyport:: DESTINATION ${config_dir} FILE SallyportTargets.cmake)
configure_package_config_file(cmake/SallyportConfig.cmake.in ${CMAKE_BINARY_DIR}/SallyportConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/SallyportConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/SallyportConfig.cmake ${CMAKE_BINARY_DIR}/SallyportConfigVersion.cmake
        DESTINATION ${config_dir})
file(RELATIVE_PATH prefix_from_pc /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)  # works wherever it is put
configure_file(cmake/sallyport.pc.in ${CMAKE_BINARY_DIR}/sallyport.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sallyport.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/cpp-client ${CMAKE_SOURCE_DIR}/examples/plugin-with-memory
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# Completion is made by the program itself, when it is installed.
set(completion ${CMAKE_BINARY_DIR}/completion)
install(CODE "file(MAKE_DIRECTORY \"${completion}\")
  foreach(pair \"bash;sallyport\" \"zsh;_sallyport\" \"fish;sallyport.fish\")
    list(GET pair 0 shell)
    list(GET pair 1 name)
    execute_process(COMMAND \"$<TARGET_FILE:sallyport>\" completion \${shell} OUTPUT_FILE \"${completion}/\${name}\"
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES ${completion}/sallyport DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completion}/_sallyport DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${completion}/sallyport.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

find_program(SCDOC scdoc)
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.scd)
if(SCDOC)
  foreach(source IN LISTS pages)
    cmake_path(GET source STEM LAST_ONLY page)
    string(REGEX MATCH "[0-9]$" section ${page})
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man/${page} DEPENDS ${source}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
      COMMAND sh -c "'${SCDOC}' < '${source}' > '${CMAKE_BINARY_DIR}/man/${page}'" VERBATIM)
    list(APPEND man_pages ${CMAKE_BINARY_DIR}/man/${page})
    install(FILES ${CMAKE_BINARY_DIR}/man/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  add_custom_target(man ALL DEPENDS ${man_pages})
else()
  message(STATUS "scdoc is not there: the manual pages are not installed")
endif()
