/* core.h - the part of trireme._core that cffi does not make: what a run costs beyond its operators.
 *
 * cffi converts one argument at a time, and makes a Python object of each pointer. A run with ten feeds and ten fetches spent ten times as
 * long there as in the core. So a PlanCall converts all feeds, runs, and makes all results in one call. Everything else stays in Python:
 * the first look at a feed, and every mistake.
 *
 * Only Python's limited API is used. NumPy's arrays come in by the buffer protocol, and results are made by NumPy's own types, which
 * `use_arrays` hands over: the extension needs neither NumPy's headers to be built nor NumPy to be loaded. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "framework/trireme.h"

/* What native/tensor.py hands over. */
typedef struct tr_py_arrays {
    PyObject *ndarray;                /* numpy.ndarray */
    PyObject *one_element;            /* its subclass for results of one element */
    PyObject *dtypes;                 /* dict: number of a tr_dtype -> numpy.dtype; bfloat16, which NumPy does not have, is uint16 */
    PyObject *lod_tensor;             /* LoDTensor */
} tr_py_arrays;

extern tr_py_arrays tr_py_arrays_used;

/* -- locks --------------------------------------------------------------------------------------------------- */

typedef struct tr_py_lock tr_py_lock;

/* NULL: the object is another kind of lock. */
tr_py_lock *tr_py_lock_of(PyObject *object);
/* With Python's own lock held. False: an exception is set, such as KeyboardInterrupt while it waited. */
bool        tr_py_lock_take(tr_py_lock *lock);
void        tr_py_lock_leave(tr_py_lock *lock);

/* -- one feed of a plan ------------------------------------------------------------------------------------- */

typedef struct tr_py_fed {
    PyObject *name;
    PyObject *accept;                 /* callable of Python: looks at a value that is not like the one before */
    char      format[8];              /* of the last value's elements, as the buffer protocol writes it */
    int64_t   dims[TR_MAX_RANK];
    int       rank;
    Py_buffer view;                   /* during a run: the memory that the core reads */
    PyObject *kept;                   /* during a run: what `accept` has returned, or NULL */
} tr_py_fed;

/* Points `feed` at the value's memory, which stays until tr_py_fed_release. False: an exception is set. */
bool tr_py_fed_set(tr_py_fed *fed, tr_feed *feed, PyObject *value);
void tr_py_fed_release(tr_py_fed *fed);
void tr_py_fed_deinit(tr_py_fed *fed);

/* -- one result of a plan ----------------------------------------------------------------------------------- */

typedef struct tr_py_fetched {
    tr_dtype  dtype;                  /* of the array below; TR_DTYPE_NONE: there is none yet */
    int       rank;
    int64_t   dims[TR_MAX_RANK];
    PyObject *stage;                  /* a bytearray */
    PyObject *copy;                   /* the method `copy` of an array over the stage */
} tr_py_fetched;

enum { TR_PY_MAX_COPIED = 4096 };     /* bytes; the memory of a larger result is handed out */

/* Whether a result is an array of a few bytes, which costs less to copy than to hand out. */
bool      tr_py_is_small(const tr_tensor *tensor);
/* A new array with a copy of a small result's values. NULL: an exception is set. */
PyObject *tr_py_fetched_copy(tr_py_fetched *fetched, tr_tensor *tensor);
void      tr_py_fetched_deinit(tr_py_fetched *fetched);
/* An array over the memory of a tensor, which it owns from then on, also where it fails. NULL: an exception is set. */
PyObject *tr_py_array_of_tensor(tr_tensor *tensor);
/* The same as a LoDTensor, which makes all else that it needs when it is used. */
PyObject *tr_py_lod_tensor_of(tr_tensor *tensor);

/* -- the module --------------------------------------------------------------------------------------------- */

/* Functions of the module; the last one has no name. */
extern PyMethodDef tr_py_call_functions[];
/* Add the types. False: an exception is set. */
bool tr_py_add_lock_types(PyObject *module);
bool tr_py_add_call_types(PyObject *module);
bool tr_py_add_array_types(PyObject *module);
