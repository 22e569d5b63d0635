/* fed_value.c - a value that is fed, on its way to the core.
 *
 * An array that is like the one before (type of elements, shape, contiguous) needs no other look: its memory is lent to the core. Any other
 * value goes to Python's `accept`, which refuses it or returns an array of the right type, and whose answer is remembered here. */
#include "core.h"

#include <string.h>

static bool is_as_before(const tr_py_fed *fed)
{
    const Py_buffer *view = &fed->view;

    if (view->ndim != fed->rank || !view->format || strcmp(view->format, fed->format) != 0)
        return false;
    for (int d = 0; d < fed->rank; d++)
        if (view->shape[d] != fed->dims[d])
            return false;
    return true;
}

static void remember(tr_py_fed *fed, tr_feed *feed, int dtype)
{
    const Py_buffer *view = &fed->view;

    fed->rank = view->ndim;
    for (int d = 0; d < view->ndim; d++)
        fed->dims[d] = view->shape[d];
    fed->format[0] = '\0';                     /* one that is too long is never as before */
    if (view->format && strlen(view->format) < sizeof fed->format)
        strcpy(fed->format, view->format);
    feed->dtype = (tr_dtype)dtype;
    feed->rank = fed->rank;
    feed->dims = fed->dims;
}

/* `accept` returns (array, number of its type), or with sequences (array, number, levels, address of counts, address of offsets, what
 * keeps these alive). */
static bool ask(tr_py_fed *fed, tr_feed *feed, PyObject *value)
{
    PyObject  *array, *alive = NULL;
    Py_ssize_t counts = 0, offsets = 0;
    int        dtype, levels = 0;
    PyObject  *answer = PyObject_CallFunctionObjArgs(fed->accept, value, NULL);

    if (!answer)
        return false;
    if (!PyArg_ParseTuple(answer, "Oi|innO", &array, &dtype, &levels, &counts, &offsets, &alive) ||
        PyObject_GetBuffer(array, &fed->view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
        Py_DECREF(answer);
        return false;
    }
    fed->kept = answer;
    remember(fed, feed, dtype);
    feed->lod_levels = levels;
    feed->lod_counts = (const int64_t *)counts;
    feed->lod_offsets = (const int64_t *const *)offsets;
    return true;
}

bool tr_py_fed_set(tr_py_fed *fed, tr_feed *feed, PyObject *value)
{
    if (PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)tr_py_arrays_used.ndarray)) {
        if (PyObject_GetBuffer(value, &fed->view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0)
            PyErr_Clear();                     /* it is not contiguous, or of a type that has no buffers */
        else if (is_as_before(fed))
            feed->lod_levels = 0;
        else
            PyBuffer_Release(&fed->view);
    }
    if (!fed->view.obj && !ask(fed, feed, value))
        return false;
    feed->data = fed->view.buf;
    return true;
}

void tr_py_fed_release(tr_py_fed *fed)
{
    PyBuffer_Release(&fed->view);
    Py_CLEAR(fed->kept);
}

void tr_py_fed_deinit(tr_py_fed *fed)
{
    tr_py_fed_release(fed);
    Py_CLEAR(fed->name);
    Py_CLEAR(fed->accept);
}
