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

# tr_add_proto(globs...): tr_proto, whose headers are included as "proto/<name>.pb-c.h".
function(tr_add_proto)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
    file(GLOB protos CONFIGURE_DEPENDS ${globs})
    set(generated)
    foreach(proto IN LISTS protos)
        cmake_path(GET proto STEM name)
        set(outputs ${TR_PROTO_DIR}/${name}.pb-c.c ${TR_PROTO_DIR}/${name}.pb-c.h)
        add_custom_command(OUTPUT ${outputs}
            COMMAND ${TR_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/proto --c_out=${TR_PROTO_DIR} ${proto}
            DEPENDS ${protos} COMMENT "protoc-c ${name}.proto" VERBATIM)
        list(APPEND generated ${outputs})
    endforeach()
    if(NOT generated)
        file(CONFIGURE OUTPUT ${TR_PROTO_DIR}/none.c CONTENT "typedef int tr_nothing_yet;\n")
        set(generated ${TR_PROTO_DIR}/none.c)
    endif()
    add_library(tr_proto STATIC ${generated})                # generated code: without our warnings
    target_include_directories(tr_proto SYSTEM PUBLIC ${TR_PROTOBUF_C_INCLUDE_DIR})
    target_link_libraries(tr_proto PUBLIC ${TR_PROTOBUF_C_LIBRARY})
endfunction()
