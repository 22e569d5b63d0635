/* module.c - the module trireme._core: what cffi makes of the C API (`ffi` and `lib`), and the types of core.h. */
#include "core.h"

PyObject *tr_py_cffi_module(void);    /* PyInit__core of the file that cffi writes, by another name: see TriremePython.cmake */
PyMODINIT_FUNC PyInit__core(void);

static PyObject *use_arrays(PyObject *module, PyObject *args)
{
    PyObject *ndarray, *one_element, *dtypes, *lod_tensor;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyType_Type, &ndarray, &PyType_Type, &one_element, &PyDict_Type, &dtypes, &PyType_Type, &lod_tensor))
        return NULL;
    tr_py_arrays_used = (tr_py_arrays){Py_NewRef(ndarray), Py_NewRef(one_element), Py_NewRef(dtypes), Py_NewRef(lod_tensor)};
    return Py_NewRef(Py_None);
}

static PyObject *array_of(PyObject *module, PyObject *address)
{
    tr_tensor *tensor = PyLong_AsVoidPtr(address);

    (void)module;
    return tensor ? tr_py_array_of_tensor(tensor) : NULL;
}

static PyMethodDef array_functions[] = {
    {"use_arrays", use_arrays, METH_VARARGS, "use_arrays(ndarray, its class for one element, NumPy's types by their numbers, LoDTensor)"},
    {"array_of", array_of, METH_O, "array_of(address of a tensor) -> an array over its memory, which frees the tensor at its end"},
    {0},
};

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = tr_py_cffi_module();

    if (module && PyModule_AddFunctions(module, array_functions) == 0 && PyModule_AddFunctions(module, tr_py_call_functions) == 0 &&
        tr_py_add_lock_types(module) && tr_py_add_array_types(module) && tr_py_add_call_types(module))
        return module;
    Py_XDECREF(module);
    return NULL;
}
