/* plan_call.c - a plan of the core with what its runs need on the way from Python and back: the type PlanCall.
 *
 * A call is made by one thread at a time, which holds the locks of its scope, program and executor. Python code that runs in between (`accept`,
 * a collector's finalizer) might begin a run of the same plan on the same thread, which would take this run's memory: it is refused.
 *
 * The class of Python that builds on this one (run/prepared.py) has two methods, which are called where there is more to say:
 * `_failed(status, feed)` raises the exception for a failure; `_result(address, number)` makes a result of a tensor that is no plain
 * array, and owns the tensor. */
#include "core.h"

typedef struct plan_call {
    PyObject_HEAD
    tr_plan       *plan;              /* retained */
    Py_ssize_t     feed_count, fetch_count;
    tr_py_fed     *fed;
    tr_feed       *feeds;             /* what the core reads */
    tr_py_fetched *fetched;
    tr_tensor    **tensors;           /* where the core writes; owned */
    bool           runs;
} plan_call;

static PyTypeObject *call_type;
static PyObject     *name_of_var;     /* "_name": what a Variable keeps its name as */

/* -- begin and end ------------------------------------------------------------------------------------------------ */

static bool make_room(plan_call *call, Py_ssize_t feeds, Py_ssize_t fetches)
{
    call->fed = PyMem_Calloc((size_t)feeds + 1, sizeof *call->fed);
    call->feeds = PyMem_Calloc((size_t)feeds + 1, sizeof *call->feeds);
    call->fetched = PyMem_Calloc((size_t)fetches + 1, sizeof *call->fetched);
    call->tensors = PyMem_Calloc((size_t)fetches + 1, sizeof *call->tensors);
    if (!call->fed || !call->feeds || !call->fetched || !call->tensors) {
        PyErr_NoMemory();
        return false;
    }
    call->feed_count = feeds;
    call->fetch_count = fetches;
    for (Py_ssize_t i = 0; i < fetches; i++) {
        call->fetched[i].dtype = TR_DTYPE_NONE;
        if (!(call->tensors[i] = tr_tensor_new())) {
            PyErr_NoMemory();
            return false;
        }
    }
    return true;
}

/* PlanCall(address of the plan, names of the feeds, a callable for each, number of fetches) */
static int call_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    plan_call *call = (plan_call *)self;
    PyObject  *names, *accepts;
    Py_ssize_t address, fetches;

    (void)kwargs;
    if (!PyArg_ParseTuple(args, "nO!O!n", &address, &PyTuple_Type, &names, &PyTuple_Type, &accepts, &fetches))
        return -1;
    if (call->plan || PyTuple_Size(names) != PyTuple_Size(accepts)) {
        PyErr_SetString(PyExc_ValueError, "PlanCall: it is made once, with a callable for each name");
        return -1;
    }
    call->plan = (tr_plan *)address;
    tr_plan_retain(call->plan);
    if (!make_room(call, PyTuple_Size(names), fetches))
        return -1;
    for (Py_ssize_t i = 0; i < call->feed_count; i++) {
        call->fed[i].name = Py_NewRef(PyTuple_GetItem(names, i));
        call->fed[i].accept = Py_NewRef(PyTuple_GetItem(accepts, i));
        call->fed[i].rank = -1;
    }
    return 0;
}

static void call_free(PyObject *self)
{
    plan_call    *call = (plan_call *)self;
    PyTypeObject *type = Py_TYPE(self);

    for (Py_ssize_t i = 0; i < call->feed_count; i++)
        tr_py_fed_deinit(&call->fed[i]);
    for (Py_ssize_t i = 0; i < call->fetch_count; i++) {
        tr_py_fetched_deinit(&call->fetched[i]);
        tr_tensor_free(call->tensors[i]);
    }
    PyMem_Free(call->fed);
    PyMem_Free(call->feeds);
    PyMem_Free(call->fetched);
    PyMem_Free(call->tensors);
    if (call->plan)
        tr_plan_release(call->plan);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* -- a run ---------------------------------------------------------------------------------------------------------- */

static void let_go(plan_call *call)
{
    for (Py_ssize_t i = 0; i < call->feed_count; i++)
        tr_py_fed_release(&call->fed[i]);
    call->runs = false;
}

/* Point the core at what is fed. False: an exception is set. */
static bool begin(plan_call *call, PyObject *feed)
{
    if (call->runs) {
        PyErr_SetString(PyExc_RuntimeError, "this run has begun and is not over: code that is called within it may not run the same program");
        return false;
    }
    call->runs = true;
    for (Py_ssize_t i = 0; i < call->feed_count; i++) {
        tr_py_fed *fed = &call->fed[i];
        PyObject  *value = PyDict_GetItemWithError(feed, fed->name);
        if (!value && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, fed->name);
        if (!value || !tr_py_fed_set(fed, &call->feeds[i], value)) {
            let_go(call);
            return false;
        }
    }
    return true;
}

static void fail(plan_call *call, tr_status status, PyObject *feed)
{
    PyObject *none = PyObject_CallMethod((PyObject *)call, "_failed", "iO", (int)status, feed);

    if (none)
        PyErr_SetString(PyExc_SystemError, "PlanCall: _failed has raised nothing");
    Py_XDECREF(none);
}

static PyObject *result(plan_call *call, Py_ssize_t i, bool return_numpy)
{
    tr_tensor *tensor = call->tensors[i];
    const bool has_rows = tr_tensor_has_rows(tensor);
    const bool is_array = return_numpy && !has_rows && !tr_tensor_lod_levels(tensor) && tr_tensor_dtype(tensor) != TR_BF16;

    if (is_array && tr_py_is_small(tensor))
        return tr_py_fetched_copy(&call->fetched[i], tensor);
    if (!(call->tensors[i] = tr_tensor_new())) {
        call->tensors[i] = tensor;
        return PyErr_NoMemory();
    }
    if (is_array)
        return tr_py_array_of_tensor(tensor);
    if (!return_numpy && !has_rows)
        return tr_py_lod_tensor_of(tensor);
    return PyObject_CallMethod((PyObject *)call, "_result", "nn", (Py_ssize_t)tensor, i);
}

static PyObject *results(plan_call *call, PyObject *return_numpy)
{
    const int arrays = PyObject_IsTrue(return_numpy);      /* -1: an exception is set */
    PyObject *list = arrays < 0 ? NULL : PyList_New(call->fetch_count);

    for (Py_ssize_t i = 0; list && i < call->fetch_count; i++) {
        PyObject *value = result(call, i, arrays);
        if (!value)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, value);
    }
    return list;
}

static PyObject *run(plan_call *call, PyObject *feed, PyObject *return_numpy)
{
    tr_status status;

    if (!begin(call, feed))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tr_plan_run(call->plan, call->feeds, call->tensors);
    Py_END_ALLOW_THREADS
    if (status != TR_OK)
        fail(call, status, feed);
    let_go(call);
    return status == TR_OK ? results(call, return_numpy) : NULL;
}

static PyObject *call_run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    plan_call *call = (plan_call *)self;

    if (count != 2 || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "PlanCall.run takes a dict and whether results are arrays");
        return NULL;
    }
    return run(call, args[0], args[1]);
}

/* The parts of a run, for several plans that run at the same time (run/replica_runs.py). */

static PyObject *call_begin(PyObject *self, PyObject *feed)
{
    if (!PyDict_Check(feed)) {
        PyErr_SetString(PyExc_TypeError, "PlanCall.begin takes a dict");
        return NULL;
    }
    return begin((plan_call *)self, feed) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *call_end(PyObject *self, PyObject *none)
{
    (void)none;
    let_go((plan_call *)self);
    return Py_NewRef(Py_None);
}

static PyObject *call_results(PyObject *self, PyObject *return_numpy)
{
    return results((plan_call *)self, return_numpy);
}

static PyObject *call_address(PyObject *self, void *offset)
{
    return PyLong_FromVoidPtr(*(void **)((char *)self + (size_t)offset));
}

static PyMethodDef call_methods[] = {
    {"run", (PyCFunction)(void (*)(void))call_run, METH_FASTCALL,
     "run(feed, return_numpy) -> the list of results."},
    {"begin", call_begin, METH_O, "begin(feed): point the core at what is fed."},
    {"end", call_end, METH_NOARGS, "end(): let go of what was fed."},
    {"results", call_results, METH_O, "results(return_numpy) -> the list of what the core has written."},
    {0},
};

static PyGetSetDef call_members[] = {
    {.name = "plan", .get = call_address, .doc = "Address of the tr_plan.", .closure = (void *)offsetof(plan_call, plan)},
    {.name = "feeds", .get = call_address, .doc = "Address of the array of tr_feed.", .closure = (void *)offsetof(plan_call, feeds)},
    {.name = "tensors", .get = call_address, .doc = "Address of the array of tr_tensor *.", .closure = (void *)offsetof(plan_call, tensors)},
    {0},
};

static PyType_Slot call_slots[] = {
    {Py_tp_doc, "A plan, and the way of feeds and results between Python and it."},
    {Py_tp_init, call_init},
    {Py_tp_dealloc, call_free},
    {Py_tp_methods, call_methods},
    {Py_tp_getset, call_members},
    {0, NULL},
};

static PyType_Spec call_spec = {
    .name = "trireme._core.PlanCall", .basicsize = sizeof(plan_call), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = call_slots,
};

/* -- turns ---------------------------------------------------------------------------------------------------------- */

/* The locks of a scope, a program and an executor. In this order, so that no two threads wait for each other: a job runs programs of its own
 * inside a run. */
enum { LOCKS = 3 };

static void leave(PyObject *const *locks, int count)
{
    while (count-- > 0)
        tr_py_lock_leave(tr_py_lock_of(locks[count]));
}

/* False: one is of another kind, or an exception is set. */
static bool take(PyObject *const *locks)
{
    for (int i = 0; i < LOCKS; i++) {
        tr_py_lock *lock = tr_py_lock_of(locks[i]);
        if (!lock || !tr_py_lock_take(lock)) {
            leave(locks, i);
            return false;
        }
    }
    return true;
}

/* None: Python is to do it. */
static PyObject *not_here(void)
{
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *run_if_current(PyObject *call, PyObject *feed, PyObject *return_numpy)
{
    if (!tr_plan_is_current(((plan_call *)call)->plan))
        return Py_NewRef(Py_None);
    Py_INCREF(call);                           /* a function that the run calls may let the program forget it */
    PyObject *found = run((plan_call *)call, feed, return_numpy);
    Py_DECREF(call);
    return found;
}

/* run_prepared(lock of the scope, of the program, of the executor, call, feed, return_numpy) */
static PyObject *run_prepared(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != LOCKS + 3 || !PyType_IsSubtype(Py_TYPE(args[3]), call_type) || !PyDict_Check(args[4]) ||
        PyDict_Size(args[4]) != ((plan_call *)args[3])->feed_count || !take(args))
        return not_here();
    PyObject *found = run_if_current(args[3], args[4], args[5]);
    leave(args, LOCKS);
    return found;
}

/* -- a run that is looked up ---------------------------------------------------------------------------------------- */

/* Whose run it is, and the names of what is fed and fetched: (executor, scope, *feed, None, *fetches). Also what Python makes of these where there
 * is no such run yet (run/runner.py). */
static PyObject *key_of(PyObject *executor, PyObject *scope, PyObject *feed, PyObject *fetches)
{
    const Py_ssize_t fetch_count = PySequence_Size(fetches);
    PyObject        *key = PyTuple_New(3 + PyDict_Size(feed) + fetch_count), *name;
    Py_ssize_t       at = 0, next = 0;

    if (!key)
        return NULL;
    PyTuple_SetItem(key, at++, Py_NewRef(executor));
    PyTuple_SetItem(key, at++, Py_NewRef(scope));
    while (PyDict_Next(feed, &next, &name, NULL))
        PyTuple_SetItem(key, at++, Py_NewRef(name));
    PyTuple_SetItem(key, at++, Py_NewRef(Py_None));
    for (Py_ssize_t i = 0; i < fetch_count; i++) {
        PyObject *var = PySequence_GetItem(fetches, i);
        if (var && !PyUnicode_Check(var)) {
            name = PyObject_GetAttr(var, name_of_var);
            Py_DECREF(var);
            var = name;
        }
        if (!var) {
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SetItem(key, at++, var);
    }
    return key;
}

/* run_kept(lock of the scope, of the program, of the executor, kept, executor, scope, feed, fetches, return_numpy) */
static PyObject *run_kept(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyObject *found = NULL;

    (void)module;
    if (count != LOCKS + 6 || !PyDict_Check(args[3]) || !PyDict_Check(args[6]) || !(PyList_Check(args[7]) || PyTuple_Check(args[7])) ||
        !take(args))
        return not_here();
    PyObject *key = key_of(args[4], args[5], args[6], args[7]);
    PyObject *call = key ? PyDict_GetItemWithError(args[3], key) : NULL;
    Py_XDECREF(key);
    if (call)
        found = run_if_current(call, args[6], args[8]);
    leave(args, LOCKS);
    return found || call ? found : not_here();
}

PyMethodDef tr_py_call_functions[] = {
    {"run_prepared", (PyCFunction)(void (*)(void))run_prepared, METH_FASTCALL,
     "run_prepared(three locks, call, feed, return_numpy) -> the list of results; None: it is to be prepared, or the feeds are others."},
    {"run_kept", (PyCFunction)(void (*)(void))run_kept, METH_FASTCALL,
     "run_kept(three locks, kept, executor, scope, feed, fetches, return_numpy) -> the list of results; None: it is to be prepared."},
    {0},
};

bool tr_py_add_call_types(PyObject *module)
{
    name_of_var = PyUnicode_InternFromString("_name");
    call_type = (PyTypeObject *)PyType_FromSpec(&call_spec);
    return name_of_var && call_type && PyModule_AddType(module, call_type) == 0;
}
