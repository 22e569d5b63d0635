# The floors, enforced: proto -> framework -> kernels -> storage -> pserver -> serving -> trainer.
#
# A floor's include directory lies in the build tree and holds one symbolic link for each folder that the
# floor may see: itself and those above. Including "kernels/x.h" from framework/ therefore does not compile.
# Of proto/ a floor sees its own messages and those of the floors above.
#
# A floor with a list of folders here is divided into them, and they stand above one another in the same way. A folder sees the folders
# before it in the list, and of its floor's own folder the public headers, trireme*.h. Other files of the floor's own folder come last.
# Each list stands in the README of its floor, too, with words.
set(TR_FLOORS framework kernels storage pserver serving trainer)
set(TR_KERNELS_FOLDERS math/tools math/arrays math/products math/images math/sequences math/training base elementwise
    reductions creation shapes indexing optimizers dense normalization images sequences recurrent tables tensor_arrays
    control_flow input_output losses metrics forms)
set(TR_FRAMEWORK_FOLDERS base threads tensors programs operators formats gradients composites plans runs)
set(TR_STORAGE_FOLDERS util stores memory slots cold table checkpoint)
set(TR_PSERVER_FOLDERS util wire observe state core/base core/board core/tasks core/client core/carrier core/replica core/updates
    core/snapshots core/members core/server transport store rank api ops)
set(TR_TRAINER_FOLDERS files formats dataset checkpoints job loop saved_job)

# Messages: proto/<name>.proto.
set(TR_FRAMEWORK_PROTOS framework)
set(TR_STORAGE_PROTOS checkpoint)
set(TR_PSERVER_PROTOS pserver)
set(TR_TRAINER_PROTOS job)

# OUT: the floors above FLOOR. The highest one comes first.
function(tr_floors_above OUT FLOOR)
    list(FIND TR_FLOORS ${FLOOR} count)
    list(SUBLIST TR_FLOORS 0 ${count} above)
    set(${OUT} ${above} PARENT_SCOPE)
endfunction()

# OUT: the name of the library of a folder of FLOOR, or of the floor's own folder, ".".
function(tr_folder_target OUT FLOOR FOLDER)
    string(REPLACE "/" "_" folder ${FOLDER})
    string(REPLACE "." "top" folder ${folder})
    set(${OUT} tr_${FLOOR}_${folder} PARENT_SCOPE)
endfunction()

# Make the include directory of a folder of FLOOR, or of the whole floor, "."; OUT is its path.
function(tr_include_dir OUT FLOOR FOLDER)
    string(REPLACE "/." "" name ${FLOOR}/${FOLDER})
    string(REPLACE "/" "." name ${name})
    set(dir ${PROJECT_BINARY_DIR}/floors/${name})
    set(${OUT} ${dir} PARENT_SCOPE)
    get_property(is_made GLOBAL PROPERTY TR_MADE_${name})
    if(is_made)
        return()
    endif()
    set_property(GLOBAL PROPERTY TR_MADE_${name} ON)
    file(REMOVE_RECURSE ${dir})                                # what the list no longer has shall not be seen
    tr_floors_above(above ${FLOOR})
    file(MAKE_DIRECTORY ${dir}/proto)
    foreach(seen IN LISTS above ITEMS ${FLOOR})
        string(TOUPPER ${seen} upper)                          # at the end: of FLOOR
        foreach(proto IN LISTS TR_${upper}_PROTOS)
            file(CREATE_LINK ${TR_PROTO_DIR}/${proto}.pb-c.h ${dir}/proto/${proto}.pb-c.h SYMBOLIC)
        endforeach()
    endforeach()
    if(FOLDER STREQUAL ".")
        list(APPEND above ${FLOOR})
    endif()
    foreach(seen IN LISTS above)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${seen} ${dir}/${seen} SYMBOLIC)
    endforeach()
    if(FOLDER STREQUAL ".")
        return()
    endif()
    file(GLOB public CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${FLOOR}/trireme*.h)
    list(FIND TR_${upper}_FOLDERS ${FOLDER} index)
    math(EXPR count "${index} + 1")
    list(SUBLIST TR_${upper}_FOLDERS 0 ${count} folders)
    list(TRANSFORM folders PREPEND ${FLOOR}/)
    foreach(seen IN LISTS public folders)
        cmake_path(GET seen PARENT_PATH parent)
        file(MAKE_DIRECTORY ${dir}/${parent})
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${seen} ${dir}/${seen} SYMBOLIC)
    endforeach()
endfunction()

# Let TARGET see FLOOR, or a folder of it, and what stands above, and give it our flags.
function(tr_target_on_floor TARGET FLOOR)
    set(folder ${ARGN} .)
    list(GET folder 0 folder)
    tr_include_dir(dir ${FLOOR} ${folder})
    target_include_directories(${TARGET} PRIVATE ${dir})
    # File names in messages are relative to the tree; of two prefixes that fit, the compiler takes the later.
    target_compile_options(${TARGET} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${dir}/=)
    target_link_libraries(${TARGET} PRIVATE tr_flags)
endfunction()

# tr_add_floor(name [EXCEPT regex]): the static library tr_<name>, folder by folder, and of its messages tr_<name>_proto. The names of all
# libraries of objects go into TR_<NAME>_PARTS.
function(tr_add_floor FLOOR)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCEPT" "")
    string(TOUPPER ${FLOOR} upper)
    tr_add_protos(tr_${FLOOR}_proto ${TR_${upper}_PROTOS})
    tr_floors_above(floors ${FLOOR})
    list(POP_BACK floors above)
    list(TRANSFORM above PREPEND tr_)
    set(objects)
    set(parts)
    foreach(folder IN LISTS TR_${upper}_FOLDERS ITEMS .)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FLOOR}/${folder}/*.c)
        if(arg_EXCEPT)
            list(FILTER sources EXCLUDE REGEX "${arg_EXCEPT}")
        endif()
        if(NOT sources)
            continue()
        endif()
        tr_folder_target(part ${FLOOR} ${folder})
        add_library(${part} OBJECT ${sources})
        tr_target_on_floor(${part} ${FLOOR} ${folder})
        target_link_libraries(${part} PRIVATE ${above} tr_${FLOOR}_proto)
        list(APPEND parts ${part})
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
    endforeach()
    add_library(tr_${FLOOR} STATIC ${objects})
    set_target_properties(tr_${FLOOR} PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(tr_${FLOOR} PUBLIC ${above} tr_${FLOOR}_proto PRIVATE tr_flags)
    set(TR_${upper}_PARTS ${parts} PARENT_SCOPE)
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
