# The floors, enforced: proto -> framework -> kernels -> storage -> pserver -> serving -> trainer.
#
# A floor's include directory lies in the build tree and holds one symbolic link for each folder that the
# floor may see: itself and those above. Including "kernels/x.h" from framework/ therefore does not compile.
#
# The floors storage and pserver are divided into folders that stand above one another in the same way. A folder sees the headers in
# its floor's own folder, which are public, and the folders before it in its floor's list.
set(TR_FLOORS proto framework kernels storage pserver serving trainer)
set(TR_STORAGE_FOLDERS util memory table checkpoint)
set(TR_PSERVER_FOLDERS util wire observe state core transport store job ops)

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

# OUT: the floors above FLOOR without proto. The highest one comes first.
function(tr_floors_above OUT FLOOR)
    list(FIND TR_FLOORS ${FLOOR} index)
    math(EXPR count "${index} - 1")
    list(SUBLIST TR_FLOORS 1 ${count} above)
    set(${OUT} ${above} PARENT_SCOPE)
endfunction()

# Make the include directory of a folder of FLOOR, which is divided into FOLDERS; OUT is its path.
function(tr_folder_include_dir OUT FLOOR FOLDER FOLDERS)
    set(dir ${PROJECT_BINARY_DIR}/floors/${FLOOR}.${FOLDER})
    file(MAKE_DIRECTORY ${dir}/${FLOOR})
    file(CREATE_LINK ${TR_PROTO_DIR} ${dir}/proto SYMBOLIC)
    tr_floors_above(above ${FLOOR})
    foreach(seen IN LISTS above)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${seen} ${dir}/${seen} SYMBOLIC)
    endforeach()
    file(GLOB public CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FLOOR}/*.h)
    foreach(header IN LISTS public)
        get_filename_component(name ${header} NAME)
        file(CREATE_LINK ${header} ${dir}/${FLOOR}/${name} SYMBOLIC)
    endforeach()
    foreach(seen IN LISTS FOLDERS)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${FLOOR}/${seen} ${dir}/${FLOOR}/${seen} SYMBOLIC)
        if(seen STREQUAL FOLDER)
            break()
        endif()
    endforeach()
    set(${OUT} ${dir} PARENT_SCOPE)
endfunction()

# tr_add_divided_floor(name FOLDERS folders... [EXCEPT regex]): the static library tr_<name>, folder by folder.
function(tr_add_divided_floor FLOOR)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCEPT" "FOLDERS")
    tr_floors_above(above ${FLOOR})
    list(GET above -1 above)
    set(objects)
    foreach(folder IN LISTS arg_FOLDERS)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FLOOR}/${folder}/*.c)
        if(arg_EXCEPT)
            list(FILTER sources EXCLUDE REGEX "${arg_EXCEPT}")
        endif()
        add_library(tr_${FLOOR}_${folder} OBJECT ${sources})
        tr_folder_include_dir(dir ${FLOOR} ${folder} "${arg_FOLDERS}")
        tr_target_sees(tr_${FLOOR}_${folder} ${dir})
        target_link_libraries(tr_${FLOOR}_${folder} PRIVATE tr_${above})
        list(APPEND objects $<TARGET_OBJECTS:tr_${FLOOR}_${folder}>)
    endforeach()
    add_library(tr_${FLOOR} STATIC ${objects})
    set_target_properties(tr_${FLOOR} PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(tr_${FLOOR} PUBLIC tr_${above})
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
