# How C is compiled here: target tr_flags, which every target of ours links privately.
#
# -ffast-math stays off: results must not depend on how a compiler regroups a sum. The two flags about
# errno and traps change no result, and let loops with sqrtf and comparisons become vector code.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()

find_program(TR_CCACHE ccache)
if(TR_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${TR_CCACHE})
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(tr_flags INTERFACE)
target_compile_options(tr_flags INTERFACE
    -fno-math-errno -fno-trapping-math
    -Wall -Wextra -Wshadow -Wpointer-arith -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes -Wvla
    # Tables of operators name the fields that matter and leave the others zero.
    -Wno-missing-field-initializers
    # A text that is cut to its buffer is what snprintf is used for.
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
# GNU features (POSIX.1-2008, getline, memfd_create, ...) in every file alike.
target_compile_definitions(tr_flags INTERFACE _GNU_SOURCE=)
target_link_libraries(tr_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m rt)
target_link_options(tr_flags INTERFACE -Wl,--as-needed)
if(TR_WERROR)
    target_compile_options(tr_flags INTERFACE -Werror)
endif()

if(TR_SANITIZE OR TR_FUZZ)
    # A sanitizer's dlopen stands between ours and the loader, which then asks the sanitizer's run path
    # instead of ours. An old-style run path of the program holds for all its libraries.
    target_link_options(tr_flags INTERFACE -Wl,--disable-new-dtags)
    # Function clones are chosen by ifunc resolvers, which run before a sanitizer is ready.
    target_compile_definitions(tr_flags INTERFACE TR_SANITIZE)
endif()
if(TR_SANITIZE)
    set(tr_sanitize -fsanitize=${TR_SANITIZE} -fno-omit-frame-pointer)
    if(TR_SANITIZE MATCHES "undefined")
        list(APPEND tr_sanitize -fno-sanitize-recover=all)
    endif()
    add_compile_options(${tr_sanitize})
    add_link_options(${tr_sanitize})
endif()
if(TR_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
        message(FATAL_ERROR "TR_FUZZ needs clang: configure with the preset 'fuzz' (or -DCMAKE_C_COMPILER=clang)")
    endif()
    add_compile_options(-fsanitize=address,undefined -fsanitize=fuzzer-no-link -fno-omit-frame-pointer
        # Instrumented loops do not become vector code, whatever their pragma asks for.
        -Wno-pass-failed)
    add_link_options(-fsanitize=address,undefined)
endif()
