# The floors, enforced: proto -> framework -> kernels -> pserver -> serving -> trainer.
#
# A floor's include directory lies in the build tree and holds one symbolic link for each folder that the
# floor may see: itself and those above. Including "kernels/x.h" from framework/ therefore does not compile.
#
# The floor pserver is divided into folders that stand above one another in the same way. A folder sees the headers in
# pserver/ itself, which are public, and the folders before it in this list.
set(TR_FLOORS proto framework kernels pserver serving trainer)
set(TR_PSERVER_FOLDERS util wire observe memory table checkpoint core transport store job ops)

# Make the include directory of a floor; OUT is its path.
function(tr_floor_include_dir OUT FLOOR)
    set(dir ${PROJECT_BINARY_DIR}/floors/${FLOOR})
    file(MAKE_DIRECTORY ${dir})
    foreach(seen IN LISTS TR_FLOORS)
        if(seen STREQUAL "proto")
            file(CREATE_LINK ${TR_PROTO_DIR} ${dir}/proto SYMBOLIC)      # the generated headers
        else()
            file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${seen} ${dir}/${seen} SYMBOLIC)
        endif()
        if(seen STREQUAL FLOOR)
            break()
        endif()
    endforeach()
    set(${OUT} ${dir} PARENT_SCOPE)
endfunction()

# Make the include directory of a folder of pserver/; OUT is its path.
function(tr_pserver_include_dir OUT FOLDER)
    set(dir ${PROJECT_BINARY_DIR}/floors/pserver.${FOLDER})
    file(MAKE_DIRECTORY ${dir}/pserver)
    file(CREATE_LINK ${TR_PROTO_DIR} ${dir}/proto SYMBOLIC)
    foreach(seen framework kernels)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${seen} ${dir}/${seen} SYMBOLIC)
    endforeach()
    file(GLOB public CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pserver/*.h)
    foreach(header IN LISTS public)
        get_filename_component(name ${header} NAME)
        file(CREATE_LINK ${header} ${dir}/pserver/${name} SYMBOLIC)
    endforeach()
    foreach(seen IN LISTS TR_PSERVER_FOLDERS)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/pserver/${seen} ${dir}/pserver/${seen} SYMBOLIC)
        if(seen STREQUAL FOLDER)
            break()
        endif()
    endforeach()
    set(${OUT} ${dir} PARENT_SCOPE)
endfunction()

# tr_add_pserver(EXCEPT regex): the static library tr_pserver, folder by folder.
function(tr_add_pserver)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "EXCEPT" "")
    set(objects)
    foreach(folder IN LISTS TR_PSERVER_FOLDERS)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pserver/${folder}/*.c)
        list(FILTER sources EXCLUDE REGEX "${arg_EXCEPT}")
        add_library(tr_pserver_${folder} OBJECT ${sources})
        tr_pserver_include_dir(dir ${folder})
        tr_target_sees(tr_pserver_${folder} ${dir})
        target_link_libraries(tr_pserver_${folder} PRIVATE tr_kernels)
        list(APPEND objects $<TARGET_OBJECTS:tr_pserver_${folder}>)
    endforeach()
    add_library(tr_pserver STATIC ${objects})
    set_target_properties(tr_pserver PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(tr_pserver PUBLIC tr_kernels)
endfunction()

# Let TARGET see what the include directory DIR has, and give it our flags.
function(tr_target_sees TARGET dir)
    target_include_directories(${TARGET} PRIVATE ${dir})
    # File names in messages are relative to the tree; of two prefixes that fit, the compiler takes the later.
    target_compile_options(${TARGET} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${dir}/=)
    target_link_libraries(${TARGET} PRIVATE tr_flags)
endfunction()

# Let TARGET see FLOOR and those above, and give it our flags.
function(tr_target_on_floor TARGET FLOOR)
    tr_floor_include_dir(dir ${FLOOR})
    tr_target_sees(${TARGET} ${dir})
endfunction()

# tr_add_floor(name SOURCES globs... [EXCEPT regex]): the static library tr_<name>.
function(tr_add_floor FLOOR)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCEPT" "SOURCES")
    list(TRANSFORM arg_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB sources CONFIGURE_DEPENDS ${arg_SOURCES})
    if(arg_EXCEPT)
        list(FILTER sources EXCLUDE REGEX "${arg_EXCEPT}")
    endif()
    if(NOT sources)
        file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/floors/${FLOOR}.c CONTENT "typedef int tr_nothing_yet;\n")
        set(sources ${PROJECT_BINARY_DIR}/floors/${FLOOR}.c)
    endif()
    add_library(tr_${FLOOR} STATIC ${sources})
    tr_target_on_floor(tr_${FLOOR} ${FLOOR})
    list(FIND TR_FLOORS ${FLOOR} index)
    math(EXPR index "${index} - 1")
    list(GET TR_FLOORS ${index} above)
    target_link_libraries(tr_${FLOOR} PUBLIC tr_${above})
endfunction()

# tr_target_run_path(target paths...): where TARGET finds what it opens once installed; in a plain build also
# the build tree's package and OpenBLAS. One run path for both, because CMake pads one that it is to edit at
# installation with empty entries, each of which means the current directory.
function(tr_target_run_path TARGET)
    set(paths ${ARGN})
    if(NOT SKBUILD)
        list(APPEND paths ${PROJECT_BINARY_DIR}/python/trireme ${TR_BLAS_DIR})
    endif()
    set_target_properties(${TARGET} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${paths}")
endfunction()

# tr_target_exports(target patterns...): the symbols that a shared object shows. What it has of static libraries, protobuf-c's too, stays inside.
function(tr_target_exports TARGET)
    list(JOIN ARGN "; " names)
    set(script ${PROJECT_BINARY_DIR}/exports/${TARGET}.map)
    file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${names}; local: *; };\n" @ONLY)
    target_link_options(${TARGET} PRIVATE -Wl,--version-script=${script})
    set_property(TARGET ${TARGET} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# tr_add_program(name source FLOOR floor): a program that needs no Python, in bin/.
function(tr_add_program NAME SOURCE)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "FLOOR" "")
    file(GLOB source CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${SOURCE})
    if(NOT source)
        return()
    endif()
    add_executable(${NAME} ${source})
    tr_target_on_floor(${NAME} ${arg_FLOOR})
    target_link_libraries(${NAME} PRIVATE tr_${arg_FLOOR})
    tr_program_run_paths(paths)
    tr_target_run_path(${NAME} ${paths})
    install(TARGETS ${NAME} RUNTIME DESTINATION ${TR_SCRIPTS_DIR})
endfunction()

# The transport and OpenBLAS lie in site-packages, whose place relative to a program depends on the Python
# that the wheel is installed into: the one we are built with, any later one (the wheel is abi3), or the
# folder of `pip install --target`.
function(tr_program_run_paths OUT)
    set(sites ${TR_SCRIPTS_TO_SITE} ..)
    foreach(minor RANGE 11 16)
        list(APPEND sites ../lib/python3.${minor}/site-packages)
    endforeach()
    list(REMOVE_DUPLICATES sites)
    set(paths)
    foreach(site IN LISTS sites)
        list(APPEND paths $ORIGIN/${site}/trireme $ORIGIN/${site}/scipy_openblas32/lib)
    endforeach()
    set(${OUT} ${paths} PARENT_SCOPE)
endfunction()

# libtrireme.so: the C API (trireme.h, and trireme_serving.h with what it stands on) for programs of others; its headers and the file for
# pkg-config. In a wheel all three lie in the package: trireme/lib, trireme/include, trireme/lib/pkgconfig.
function(tr_add_shared_library)
    set(objects $<TARGET_OBJECTS:tr_proto> $<TARGET_OBJECTS:tr_framework> $<TARGET_OBJECTS:tr_kernels> $<TARGET_OBJECTS:tr_serving>)
    foreach(folder IN LISTS TR_PSERVER_FOLDERS)
        list(APPEND objects $<TARGET_OBJECTS:tr_pserver_${folder}>)
    endforeach()
    add_library(trireme SHARED ${objects})
    target_link_libraries(trireme PRIVATE tr_flags ${TR_PROTOBUF_C_LIBRARY})
    target_link_options(trireme PRIVATE -Wl,--as-needed)
    tr_target_exports(trireme tr_*)
    target_include_directories(trireme INTERFACE ${PROJECT_SOURCE_DIR}/framework ${PROJECT_SOURCE_DIR}/serving ${PROJECT_SOURCE_DIR})
    set_target_properties(trireme PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    if(SKBUILD)
        set(prefix trireme/)                       # a wheel holds no symbolic links, so the library has one name
        tr_target_run_path(trireme $ORIGIN/../../scipy_openblas32/lib)
    else()
        set_target_properties(trireme PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
        tr_target_run_path(trireme $ORIGIN)
    endif()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/trireme.pc.in ${PROJECT_BINARY_DIR}/trireme.pc @ONLY)
    install(TARGETS trireme LIBRARY DESTINATION ${prefix}lib COMPONENT c)
    install(FILES ${PROJECT_SOURCE_DIR}/framework/trireme.h ${PROJECT_SOURCE_DIR}/serving/trireme_serving.h
            DESTINATION ${prefix}include COMPONENT c)
    install(FILES ${PROJECT_SOURCE_DIR}/framework/trireme.h DESTINATION ${prefix}include/framework COMPONENT c)
    install(FILES ${PROJECT_SOURCE_DIR}/pserver/trireme_checkpoint.h ${PROJECT_SOURCE_DIR}/pserver/trireme_dist.h
            DESTINATION ${prefix}include/pserver COMPONENT c)
    install(FILES ${PROJECT_BINARY_DIR}/trireme.pc DESTINATION ${prefix}lib/pkgconfig COMPONENT c)
endfunction()
