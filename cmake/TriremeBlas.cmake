# OpenBLAS is not linked: kernels/math/products/openblas.c opens it when the first product is computed, so that neither
# an import nor a server pays for it. The build says its name, the prefix of its functions and run paths.
if(TR_SYSTEM_OPENBLAS)
    set(TR_BLAS_SONAME libopenblas.so.0)
    set(TR_BLAS_PREFIX "")
    set(TR_BLAS_DIR "")
else()
    set(TR_BLAS_SONAME libscipy_openblas.so)
    set(TR_BLAS_PREFIX scipy_)
    tr_python_eval(TR_BLAS_DIR "import scipy_openblas32; print(scipy_openblas32.get_lib_dir())")
    if(NOT TR_BLAS_DIR)
        message(WARNING "${Python_EXECUTABLE} has no module scipy_openblas32: products will not find OpenBLAS in the build "
                        "tree. Install it (pip install scipy-openblas32) or configure with -DTR_SYSTEM_OPENBLAS=ON.")
    endif()
endif()
