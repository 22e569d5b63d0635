# protobuf-c, linked statically so that nothing built here needs a system package to run.
find_program(TR_PROTOC_C NAMES protoc-c)
find_path(TR_PROTOBUF_C_INCLUDE_DIR protobuf-c/protobuf-c.h)
find_library(TR_PROTOBUF_C_LIBRARY NAMES libprotobuf-c.a)
if(NOT (TR_PROTOC_C AND TR_PROTOBUF_C_INCLUDE_DIR AND TR_PROTOBUF_C_LIBRARY))
    message(FATAL_ERROR
        "protobuf-c is needed and was not found: protoc-c (${TR_PROTOC_C}), protobuf-c/protobuf-c.h "
        "(${TR_PROTOBUF_C_INCLUDE_DIR}), libprotobuf-c.a (${TR_PROTOBUF_C_LIBRARY}).\n"
        "On Debian and Ubuntu:  apt-get install protobuf-c-compiler libprotobuf-c-dev   (deploy/setup.sh does it).\n"
        "Without root: build protobuf-c with --prefix=DIR --enable-static and name DIR in CMAKE_PREFIX_PATH.")
endif()

set(TR_PROTO_DIR ${PROJECT_BINARY_DIR}/proto)
file(MAKE_DIRECTORY ${TR_PROTO_DIR})

# tr_add_protos(target names...): the messages of some files of proto/, whose headers are included as "proto/<name>.pb-c.h". Without names
# the target has no code.
function(tr_add_protos TARGET)
    set(generated)
    foreach(name IN LISTS ARGN)
        set(proto ${PROJECT_SOURCE_DIR}/proto/${name}.proto)
        set(outputs ${TR_PROTO_DIR}/${name}.pb-c.c ${TR_PROTO_DIR}/${name}.pb-c.h)
        add_custom_command(OUTPUT ${outputs}
            COMMAND ${TR_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/proto --c_out=${TR_PROTO_DIR} ${proto}
            DEPENDS ${proto} COMMENT "protoc-c ${name}.proto" VERBATIM)
        list(APPEND generated ${outputs})
    endforeach()
    if(NOT generated)
        add_library(${TARGET} INTERFACE)
        return()
    endif()
    add_library(${TARGET} STATIC ${generated})               # generated code: without our warnings
    target_include_directories(${TARGET} SYSTEM PUBLIC ${TR_PROTOBUF_C_INCLUDE_DIR})
    target_link_libraries(${TARGET} PUBLIC ${TR_PROTOBUF_C_LIBRARY})
endfunction()
