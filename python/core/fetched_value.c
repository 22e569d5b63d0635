/* fetched_value.c - results as NumPy's arrays, and as LoDTensors.
 *
 * The memory of a large result is handed out: an object `Memory` owns the tensor, and the array looks at it. For a small one that costs more
 * than a copy. So its values go to a stage, memory under an array that stays, and NumPy copies that array. */
#include "core.h"

#include <string.h>

tr_py_arrays tr_py_arrays_used;

/* -- memory of a tensor --------------------------------------------------------------------------------------- */

typedef struct memory {
    PyObject_HEAD
    tr_tensor *tensor;
} memory;

static PyTypeObject *memory_type;
static PyObject     *name_of_memory;  /* "_memory": what a LoDTensor keeps it as */

static int memory_buffer(PyObject *self, Py_buffer *view, int flags)
{
    tr_tensor *tensor = ((memory *)self)->tensor;

    return PyBuffer_FillInfo(view, self, tr_tensor_data(tensor), (Py_ssize_t)tr_tensor_bytes(tensor), 0, flags);
}

static void memory_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    tr_tensor_free(((memory *)self)->tensor);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *memory_address(PyObject *self, void *none)
{
    (void)none;
    return PyLong_FromVoidPtr(((memory *)self)->tensor);
}

static PyObject *memory_let_go(PyObject *self, PyObject *pointer)
{
    memory *mine = (memory *)self;

    (void)pointer;
    tr_tensor_free(mine->tensor);
    mine->tensor = NULL;
    return Py_NewRef(Py_None);
}

static PyGetSetDef memory_members[] = {
    {.name = "address", .get = memory_address, .doc = "Address of the tr_tensor."},
    {0},
};

static PyMethodDef memory_methods[] = {
    {"let_go", memory_let_go, METH_O, "let_go(pointer to the tensor): free it now."},
    {0},
};

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "Memory of a tensor, which it frees."},
    {Py_tp_dealloc, memory_free},
    {Py_tp_getset, memory_members},
    {Py_tp_methods, memory_methods},
    {Py_bf_getbuffer, memory_buffer},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "trireme._core.Memory", .basicsize = sizeof(memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = memory_slots,
};

/* It owns the tensor from then on, also where it fails. */
static PyObject *memory_of(tr_tensor *tensor)
{
    memory *made = PyObject_New(memory, memory_type);

    if (!made) {
        tr_tensor_free(tensor);
        return NULL;
    }
    made->tensor = tensor;
    return (PyObject *)made;
}

bool tr_py_add_array_types(PyObject *module)
{
    name_of_memory = PyUnicode_InternFromString("_memory");
    memory_type = (PyTypeObject *)PyType_FromSpec(&memory_spec);
    return name_of_memory && memory_type && PyModule_AddType(module, memory_type) == 0;
}

/* -- arrays ----------------------------------------------------------------------------------------------------- */

static PyObject *shape_of(const tr_tensor *tensor)
{
    const int      rank = tr_tensor_rank(tensor);
    const int64_t *dims = tr_tensor_dims(tensor);
    PyObject      *shape = PyTuple_New(rank);

    for (int d = 0; shape && d < rank; d++) {
        PyObject *dim = PyLong_FromLongLong(dims[d]);
        if (!dim)
            Py_CLEAR(shape);
        else
            PyTuple_SetItem(shape, d, dim);
    }
    return shape;
}

/* An array of the tensor's shape and type over the memory of an object. */
static PyObject *array_over(const tr_tensor *tensor, PyObject *over)
{
    PyObject *key = PyLong_FromLong(tr_tensor_dtype(tensor));
    PyObject *dtype = key ? PyDict_GetItemWithError(tr_py_arrays_used.dtypes, key) : NULL;
    PyObject *shape = dtype ? shape_of(tensor) : NULL;
    PyObject *array = NULL;

    if (key && !dtype && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "NumPy has no type for %s", tr_dtype_name(tr_tensor_dtype(tensor)));
    if (shape) {
        const bool is_one = tr_tensor_rank(tensor) > 0 && tr_tensor_numel(tensor) == 1;
        array = PyObject_CallFunctionObjArgs(is_one ? tr_py_arrays_used.one_element : tr_py_arrays_used.ndarray, shape, dtype, over, NULL);
    }
    Py_XDECREF(shape);
    Py_XDECREF(key);
    return array;
}

PyObject *tr_py_array_of_tensor(tr_tensor *tensor)
{
    PyObject *array = NULL, *over;

    if (tr_tensor_bytes(tensor) && tr_tensor_data(tensor)) {
        over = memory_of(tensor);
        array = over ? array_over(tensor, over) : NULL;
    } else {
        over = PyByteArray_FromStringAndSize(NULL, 0);
        array = over ? array_over(tensor, over) : NULL;
        tr_tensor_free(tensor);
    }
    Py_XDECREF(over);
    return array;
}

PyObject *tr_py_lod_tensor_of(tr_tensor *tensor)
{
    PyTypeObject *type = (PyTypeObject *)tr_py_arrays_used.lod_tensor;
    PyObject     *over = memory_of(tensor), *none = over ? PyTuple_New(0) : NULL;
    PyObject     *made = none ? ((newfunc)PyType_GetSlot(type, Py_tp_new))(type, none, NULL) : NULL;

    if (made && PyObject_SetAttr(made, name_of_memory, over) != 0)
        Py_CLEAR(made);
    Py_XDECREF(none);
    Py_XDECREF(over);
    return made;
}

/* -- small results ------------------------------------------------------------------------------------------------ */

bool tr_py_is_small(const tr_tensor *tensor)
{
    return tr_tensor_bytes(tensor) <= TR_PY_MAX_COPIED;
}

static bool is_as_before(const tr_py_fetched *fetched, const tr_tensor *tensor)
{
    return fetched->dtype == tr_tensor_dtype(tensor) && fetched->rank == tr_tensor_rank(tensor) &&
           memcmp(fetched->dims, tr_tensor_dims(tensor), (size_t)fetched->rank * sizeof *fetched->dims) == 0;
}

/* Make the stage, and an array over it, for results of this shape. */
static bool set_stage(tr_py_fetched *fetched, const tr_tensor *tensor)
{
    tr_py_fetched_deinit(fetched);
    fetched->stage = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)tr_tensor_bytes(tensor));
    PyObject *array = fetched->stage ? array_over(tensor, fetched->stage) : NULL;
    fetched->copy = array ? PyObject_GetAttrString(array, "copy") : NULL;
    Py_XDECREF(array);
    if (!fetched->copy)
        return false;
    fetched->dtype = tr_tensor_dtype(tensor);
    fetched->rank = tr_tensor_rank(tensor);
    memcpy(fetched->dims, tr_tensor_dims(tensor), (size_t)fetched->rank * sizeof *fetched->dims);
    return true;
}

PyObject *tr_py_fetched_copy(tr_py_fetched *fetched, tr_tensor *tensor)
{
    if (!is_as_before(fetched, tensor) && !set_stage(fetched, tensor))
        return NULL;
    if (tr_tensor_bytes(tensor))
        memcpy(PyByteArray_AsString(fetched->stage), tr_tensor_data(tensor), (size_t)tr_tensor_bytes(tensor));
    return PyObject_CallNoArgs(fetched->copy);
}

void tr_py_fetched_deinit(tr_py_fetched *fetched)
{
    Py_CLEAR(fetched->copy);
    Py_CLEAR(fetched->stage);
    fetched->dtype = TR_DTYPE_NONE;
}
