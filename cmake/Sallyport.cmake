# How every target of this project is compiled, and one library per module of src/.

option(SALLYPORT_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(SALLYPORT_BENCH "Build the benchmarks and their peers" OFF)
set(SALLYPORT_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")
option(SALLYPORT_HARDEN "PIE, RELRO, stack protector, fortified libc calls, control-flow protection" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers need the first two to be cacheable; the last two let every work tree of this
  # project use what another one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
                    -Wimplicit-fallthrough $<$<NOT:$<CONFIG:Release>>:-fno-omit-frame-pointer>
                    # What users build must not stop at a warning that another compiler thinks of.
                    $<$<NOT:$<CONFIG:Release>>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Structured bindings and coroutine frames set these off without cause in g++ 12.
  add_compile_options(-fcoroutines -Wno-maybe-uninitialized -Wno-subobject-linkage
                      $<$<CONFIG:Release>:-Wno-restrict$<SEMICOLON>-Wno-array-bounds>)
  if(SALLYPORT_SANITIZE)
    add_compile_options(-Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(CCACHE)
    add_compile_options(-fpch-preprocess)
  endif()
elseif(CCACHE)
  add_compile_options(-Xclang -fno-pch-timestamp)
endif()
# What no program calls is left out of it.
add_compile_options($<$<CONFIG:Release>:-ffunction-sections$<SEMICOLON>-fdata-sections>)
add_link_options($<$<CONFIG:Release>:-Wl,--gc-sections>)
if(SALLYPORT_SANITIZE)
  add_compile_options(-fsanitize=${SALLYPORT_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SALLYPORT_SANITIZE})
  if(SALLYPORT_SANITIZE MATCHES "undefined")
    # It asks by a pipe whether memory can be read, and is wrong where no descriptor is left.
    add_compile_options(-fno-sanitize=vptr)
    # toml++ takes some letters beyond ASCII for impossible where it looks for blanks.
    set_source_files_properties(src/policy/toml_table.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=unreachable)
  endif()
endif()
if(SALLYPORT_FUZZ)
  # Coverage for libFuzzer in every module; its main is linked into the targets of fuzz/ only.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(SALLYPORT_HARDEN)
  include(CheckPIESupported)
  check_pie_supported()
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
                      -fcf-protection)
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# Platform code lives in files of its own. A platform that cannot say who a peer is gets no build at all.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(SALLYPORT_FOREIGN_SOURCES "_macos\\.cpp$")
elseif(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(SALLYPORT_FOREIGN_SOURCES "_linux\\.cpp$")
else()
  message(FATAL_ERROR "Sallyport needs kernel-verified peer identity; ${CMAKE_SYSTEM_NAME} is not supported.")
endif()

# Reads tools/layers.txt: makes sp_<module> from src/<module>/*.cpp and links it to what its line names.
function(sallyport_modules)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/layers.txt)
  file(STRINGS ${CMAKE_SOURCE_DIR}/tools/layers.txt lines REGEX "^[a-z]")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z]+):(.*)$" _ "${line}")
    set(module ${CMAKE_MATCH_1})
    separate_arguments(deps UNIX_COMMAND "${CMAKE_MATCH_2}")
    list(TRANSFORM deps PREPEND sp_)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${module}/*.cpp)
    list(FILTER sources EXCLUDE REGEX ${SALLYPORT_FOREIGN_SOURCES})
    if(sources)
      add_library(sp_${module} STATIC ${sources})
      target_include_directories(sp_${module} PUBLIC ${CMAKE_SOURCE_DIR}/src)
      target_link_libraries(sp_${module} PUBLIC ${deps})
    else()
      add_library(sp_${module} INTERFACE)
      target_include_directories(sp_${module} INTERFACE ${CMAKE_SOURCE_DIR}/src)
      target_link_libraries(sp_${module} INTERFACE ${deps})
    endif()
  endforeach()
endfunction()

# sallyport_generator(tool file): a program from tools/ that writes a source file of the build's generated/.
function(sallyport_generator tool file)
  add_executable(${tool} ${CMAKE_SOURCE_DIR}/tools/${tool}.cpp)
  target_include_directories(${tool} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  set_target_properties(${tool} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/generated/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
    COMMAND ${tool} ${CMAKE_BINARY_DIR}/generated/${file}
    DEPENDS ${tool}
    VERBATIM)
endfunction()

# sallyport_test(name SOURCES... LINK libs...): a GoogleTest program whose tests ctest lists one by one.
function(sallyport_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} sp_test_support GTest::gtest)
  target_precompile_headers(${name} REUSE_FROM sp_test_support)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(SALLYPORT_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")  # as patient as the tests themselves are then (kPatience)
  endif()
  # A busy machine takes longer than the usual five seconds to start some of them.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT ${arg_TIMEOUT})
endfunction()

# sallyport_python_tests(prefix TIMEOUT seconds ENVIRONMENT variables...): each case of this directory's *_test.py is a
# test of its own.
function(sallyport_python_tests prefix)
  cmake_parse_arguments(arg "" "TIMEOUT" "ENVIRONMENT" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # What was found may be a slow wrapper: ask it for the interpreter behind it.
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE python
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(python ${python} PARENT_SCOPE)
  file(GLOB files CONFIGURE_DEPENDS *_test.py)
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    cmake_path(GET file STEM module)
    file(STRINGS ${file} lines REGEX "^(class|    def test_)")
    foreach(line IN LISTS lines)
      if(line MATCHES "^class ([A-Za-z]+)")
        set(class ${CMAKE_MATCH_1})
      elseif(line MATCHES "def (test_[a-z_0-9]+)")
        set(name ${prefix}.${class}.${CMAKE_MATCH_1})
        add_test(NAME ${name} COMMAND ${python} -B -m unittest ${module}.${class}.${CMAKE_MATCH_1}
                 WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENVIRONMENT}")
      endif()
    endforeach()
  endforeach()
endfunction()

# sallyport_must_not_compile(name FILE file LINK libs...): a test that FILE compiles as it is and does
# not with -DBYPASS. The first half keeps the second honest: FILE cannot fail for another reason than
# what stands between `#ifdef BYPASS` and its `#endif`.
function(sallyport_must_not_compile name)
  cmake_parse_arguments(arg "" "FILE" "LINK" ${ARGN})
  cmake_path(ABSOLUTE_PATH arg_FILE BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set(flags -std=c++20)
  foreach(library IN LISTS arg_LINK)
    set(directories $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
    list(APPEND flags "$<$<BOOL:${directories}>:-I$<JOIN:${directories},;-I>>")
  endforeach()
  add_test(NAME must_not_compile.${name}
           COMMAND ${CMAKE_SOURCE_DIR}/tools/must_not_compile ${arg_FILE} ${CMAKE_CXX_COMPILER} "${flags}"
           COMMAND_EXPAND_LISTS)
  set_tests_properties(must_not_compile.${name} PROPERTIES TIMEOUT 120)
endfunction()
