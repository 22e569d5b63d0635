# libtrireme.so has the core, once: the Python extension, the programs and the C programs of users link with it (docs/adr/0037).
#
# Its symbols have two versions. The functions of the C API have TRIREME_<ABI>. The functions that only programs of ours call have a version
# that names the whole version of Trireme: such a program does not start with the library of another release.

# What a compiled program relies on changes with the major version, before 1.0 with the minor one (docs/c-api.md, "What stays").
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(TR_ABI 0.${PROJECT_VERSION_MINOR})
else()
    set(TR_ABI ${PROJECT_VERSION_MAJOR})
endif()

# Functions for the programs of ours alone, which no header of the C API declares.
set(TR_PRIVATE_FUNCTIONS tr_probe_run)

# The headers of the C API, relative to the tree. The library exports what they declare with TR_API; cffi reads them, too.
function(tr_api_headers OUT)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
         ${PROJECT_SOURCE_DIR}/framework/trireme.h ${PROJECT_SOURCE_DIR}/storage/trireme_*.h ${PROJECT_SOURCE_DIR}/pserver/trireme_*.h
         ${PROJECT_SOURCE_DIR}/serving/trireme_*.h ${PROJECT_SOURCE_DIR}/trainer/trireme_*.h)
    set(${OUT} ${headers} trainer/checkpoints/checkpoint_policy.h trainer/checkpoints/checkpoint_manager.h
        trainer/job/partition.h trainer/checkpoints/stop_signal.h trainer/loop/step.h PARENT_SCOPE)
endfunction()

# The functions that these headers declare with TR_API.
function(tr_api_functions OUT)
    set(functions)
    foreach(header IN LISTS ARGN)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
        file(READ ${PROJECT_SOURCE_DIR}/${header} text)
        string(REGEX MATCHALL "TR_API [^(;]*[ *]tr_[a-z0-9_]+\\(" found "${text}")
        list(TRANSFORM found REPLACE ".*[ *](tr_[a-z0-9_]+)\\($" "\\1")
        list(APPEND functions ${found})
    endforeach()
    set(${OUT} ${functions} PARENT_SCOPE)
endfunction()

# tr_target_versions(target script): the version script of a shared object. Of what it has of static libraries, protobuf-c's too, it
# shows the symbols that the script names as global.
function(tr_target_versions TARGET SCRIPT)
    set(path ${PROJECT_BINARY_DIR}/exports/${TARGET}.map)
    file(CONFIGURE OUTPUT ${path} CONTENT "${SCRIPT}" @ONLY)
    target_link_options(${TARGET} PRIVATE -Wl,--version-script=${path})
    set_property(TARGET ${TARGET} APPEND PROPERTY LINK_DEPENDS ${path})
endfunction()

# tr_target_exports(target symbol): the one symbol that a module shows to its loader.
function(tr_target_exports TARGET SYMBOL)
    tr_target_versions(${TARGET} "{ global: ${SYMBOL}; local: *; };\n")
endfunction()

# libtrireme.so, the headers of the C API and the file for pkg-config. In a wheel all three lie in the package: trireme/lib,
# trireme/include, trireme/lib/pkgconfig.
function(tr_add_library)
    set(objects)
    # What every step runs comes first, side by side: an operator's cost depends on where its code lies, by half a nanosecond.
    foreach(part IN LISTS TR_KERNELS_PARTS TR_FRAMEWORK_PARTS TR_STORAGE_PARTS TR_PSERVER_PARTS TR_SERVING_PARTS TR_TRAINER_PARTS)
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
    endforeach()
    foreach(floor framework storage pserver trainer)
        list(APPEND objects $<TARGET_OBJECTS:tr_${floor}_proto>)
    endforeach()
    add_library(trireme SHARED ${objects})
    set_target_properties(trireme PROPERTIES LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    target_link_libraries(trireme PRIVATE tr_flags ${TR_PROTOBUF_C_LIBRARY} ${TR_ZLIB_LIBRARY})
    target_include_directories(trireme INTERFACE ${PROJECT_SOURCE_DIR}/framework ${PROJECT_SOURCE_DIR}/serving ${PROJECT_SOURCE_DIR})
    tr_api_headers(headers)
    tr_api_functions(functions ${headers})
    list(JOIN functions "; " public)
    list(JOIN TR_PRIVATE_FUNCTIONS "; " private)
    tr_target_versions(trireme "TRIREME_${TR_ABI} { global: ${public}; local: *; };
TRIREME_PRIVATE_${PROJECT_VERSION} { global: ${private}; };\n")
    # A call from within is direct, whoever else defines a function of that name.
    target_link_options(trireme PRIVATE -Wl,--as-needed -Wl,-Bsymbolic)
    if(SKBUILD)
        set(prefix trireme/)                       # a wheel holds no symbolic links, so the library has one name
        tr_target_run_path(trireme $ORIGIN/../../scipy_openblas32/lib)
    else()
        set_target_properties(trireme PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${TR_ABI})
        tr_target_run_path(trireme $ORIGIN $ORIGIN/../${TR_PACKAGE_DIR})
    endif()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/trireme.pc.in ${PROJECT_BINARY_DIR}/trireme.pc @ONLY)
    install(TARGETS trireme LIBRARY DESTINATION ${prefix}lib COMPONENT c)
    install(FILES ${PROJECT_SOURCE_DIR}/framework/trireme.h ${PROJECT_SOURCE_DIR}/serving/trireme_serving.h
            DESTINATION ${prefix}include COMPONENT c)
    foreach(header IN LISTS headers)
        cmake_path(GET header PARENT_PATH folder)
        install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${prefix}include/${folder} COMPONENT c)
    endforeach()
    install(FILES ${PROJECT_BINARY_DIR}/trireme.pc DESTINATION ${prefix}lib/pkgconfig COMPONENT c)
endfunction()

# Let TARGET, which is of ours, link with the library; `paths` are where the library's folder lies once both are installed. What TARGET
# may include follows from its floor.
function(tr_target_links_library TARGET)
    target_link_libraries(${TARGET} PRIVATE $<LINK_ONLY:trireme>)
    set(paths ${ARGN})
    if(NOT SKBUILD)
        list(APPEND paths ${PROJECT_BINARY_DIR}/lib)
    endif()
    tr_target_run_path(${TARGET} ${paths})
endfunction()

# tr_add_program(name source FLOOR floor): a program that needs no Python, in bin/.
function(tr_add_program NAME SOURCE)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "FLOOR" "")
    add_executable(${NAME} ${PROJECT_SOURCE_DIR}/${SOURCE})
    tr_target_on_floor(${NAME} ${arg_FLOOR})
    tr_program_run_paths(paths)
    tr_target_links_library(${NAME} ${paths})
    install(TARGETS ${NAME} RUNTIME DESTINATION ${TR_SCRIPTS_DIR})
endfunction()

# Where the library lies, seen from a program's folder. In a wheel's case that depends on the Python that the wheel is installed into: the one
# we are built with, any later one (the wheel is abi3), the one of a distribution, or the folder of `pip install --target`.
function(tr_program_run_paths OUT)
    if(NOT SKBUILD)
        set(${OUT} $ORIGIN/../lib PARENT_SCOPE)
        return()
    endif()
    set(sites ${TR_SCRIPTS_TO_SITE} ..)
    foreach(minor RANGE 11 16)
        foreach(folder lib/python3.${minor}/site-packages lib64/python3.${minor}/site-packages lib/python3.${minor}/dist-packages)
            list(APPEND sites ../${folder})
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES sites)
    list(TRANSFORM sites REPLACE "(.+)" "$ORIGIN/\\1/trireme/lib")
    set(${OUT} ${sites} PARENT_SCOPE)
endfunction()
