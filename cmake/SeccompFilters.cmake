# The seccomp programs are made at build time: a launch pays for neither libseccomp nor a compile.
pkg_check_modules(libseccomp REQUIRED IMPORTED_TARGET libseccomp)
sallyport_generator(make_filters filters.cpp)
target_link_libraries(make_filters PRIVATE PkgConfig::libseccomp)
target_sources(sp_sandbox PRIVATE ${CMAKE_BINARY_DIR}/generated/filters.cpp)
