# The Python that builds, and the package it gets.
#
# A plain build leaves a usable package in <build>/python: PYTHONPATH=build/dev/python. Its Python files
# are links to the tree's, the extension and the MPI transport lie beside them.
if(NOT Python_EXECUTABLE AND NOT SKBUILD AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that builds the extension")
endif()
if(TR_PYTHON)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.SABIModule)
else()
    find_package(Python 3.11 COMPONENTS Interpreter)
endif()

# What a line of Python prints; empty when it fails.
function(tr_python_eval OUT CODE)
    set(result)
    if(Python_EXECUTABLE)
        execute_process(COMMAND ${Python_EXECUTABLE} -c "${CODE}" OUTPUT_VARIABLE result ERROR_QUIET
                        OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    set(${OUT} "${result}" PARENT_SCOPE)
endfunction()

tr_python_eval(TR_SCRIPTS_TO_SITE
    "import os, sysconfig as s; print(os.path.relpath(s.get_path('platlib'), s.get_path('scripts')))")

# Where an installation goes: into the wheel, or under CMAKE_INSTALL_PREFIX.
if(SKBUILD)
    set(TR_PACKAGE_DIR trireme)
    set(TR_SCRIPTS_DIR ${SKBUILD_SCRIPTS_DIR})
else()
    set(TR_PACKAGE_DIR lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages/trireme)
    set(TR_SCRIPTS_DIR bin)
endif()

function(tr_link_python_files)
    set(package ${PROJECT_BINARY_DIR}/python/trireme)
    file(MAKE_DIRECTORY ${package})
    file(GLOB stale ${package}/*)
    foreach(entry IN LISTS stale)
        if(IS_SYMLINK ${entry} AND NOT EXISTS ${entry})
            file(REMOVE ${entry})
        endif()
    endforeach()
    file(GLOB entries CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/trireme/*)
    list(FILTER entries EXCLUDE REGEX "/__pycache__$")
    foreach(entry IN LISTS entries)
        cmake_path(GET entry FILENAME name)
        file(CREATE_LINK ${entry} ${package}/${name} SYMBOLIC)
    endforeach()
endfunction()

function(tr_add_python_package)
    tr_link_python_files()
    set(core_c ${PROJECT_BINARY_DIR}/python/_core.c)
    tr_api_headers(headers)
    list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
    set(builder ${PROJECT_SOURCE_DIR}/python/build_core.py)
    add_custom_command(OUTPUT ${core_c}
        COMMAND ${Python_EXECUTABLE} ${builder} --cc ${CMAKE_C_COMPILER} --root ${PROJECT_SOURCE_DIR} --out ${core_c} ${headers}
        DEPENDS ${builder} ${headers} COMMENT "cffi: trireme._core" VERBATIM)
    set_source_files_properties(${core_c} PROPERTIES COMPILE_DEFINITIONS PyInit__core=tr_py_cffi_module)
    file(GLOB own CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/core/*.c)
    Python_add_library(_core MODULE USE_SABI 3.11 WITH_SOABI ${core_c} ${own})
    tr_include_dir(include trainer .)
    target_include_directories(_core PRIVATE ${include})
    target_compile_options(_core PRIVATE -O1)          # it converts arguments: half of the time to compile, and no slower
    target_link_options(_core PRIVATE -Wl,--as-needed)
    tr_target_exports(_core PyInit__core)
    set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/trireme)
    tr_target_links_library(_core $ORIGIN/lib $ORIGIN/../../..)          # in a wheel; under a prefix
    install(TARGETS _core LIBRARY DESTINATION ${TR_PACKAGE_DIR})
    if(SKBUILD)
        tr_add_command_pages()
    endif()
endfunction()

# A wheel has manual pages and completions of the command, which lie in share/ where it is installed.
function(tr_add_command_pages)
    tr_python_eval(found "import argparse_manpage, shtab; print('yes')")
    if(NOT found)
        message(STATUS "No manual pages and completions: argparse-manpage and shtab are not there")
        return()
    endif()
    set(share ${PROJECT_BINARY_DIR}/share)
    set(script ${PROJECT_SOURCE_DIR}/python/build_pages.py)
    add_custom_target(command_pages ALL COMMAND ${Python_EXECUTABLE} ${script} ${PROJECT_VERSION} ${share}
        COMMENT "manual pages and completions" VERBATIM)
    install(DIRECTORY ${share} DESTINATION ${SKBUILD_DATA_DIR})
endfunction()
