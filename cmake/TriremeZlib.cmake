# zlib unpacks data files, linked statically like protobuf-c where its archive can stand in a shared object.
find_path(TR_ZLIB_INCLUDE_DIR zlib.h)
find_library(TR_ZLIB_LIBRARY NAMES libz.a z)
if(NOT (TR_ZLIB_INCLUDE_DIR AND TR_ZLIB_LIBRARY))
    message(FATAL_ERROR
        "zlib is needed and was not found: zlib.h (${TR_ZLIB_INCLUDE_DIR}), libz (${TR_ZLIB_LIBRARY}).\n"
        "On Debian and Ubuntu:  apt-get install zlib1g-dev   (deploy/setup.sh does it).")
endif()
