/* turn_lock.c - the lock of an object whose users take turns: the type Lock.
 *
 * It does what Python's RLock does. But a run holds three of them, and RLock's methods take keywords, which costs more than all else that a
 * short run does in Python. Here a free lock is taken by a call without arguments, or by other code of the extension without any.
 *
 * All fields but `lock` are looked at with Python's own lock held. A thread reads `owner` as itself only where it has written it. */
#include "core.h"

#include <pythread.h>

struct tr_py_lock {
    PyObject_HEAD
    PyThread_type_lock lock;
    unsigned long      owner;         /* 0: nobody */
    Py_ssize_t         depth;         /* how often its owner has taken it */
};

static PyTypeObject *lock_type;

static PyObject *lock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (!PyArg_ParseTuple(args, "") || kwargs)
        return NULL;
    tr_py_lock *lock = (tr_py_lock *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (lock && !(lock->lock = PyThread_allocate_lock())) {
        Py_DECREF(lock);
        return PyErr_NoMemory();
    }
    return (PyObject *)lock;
}

static void lock_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tr_py_lock   *lock = (tr_py_lock *)self;

    if (lock->lock)
        PyThread_free_lock(lock->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Wait for another thread, for ever. False: a handler of a signal, such as Ctrl-C's, has raised. */
static bool wait_for(tr_py_lock *lock)
{
    PyLockStatus got;

    do {
        Py_BEGIN_ALLOW_THREADS
        got = PyThread_acquire_lock_timed(lock->lock, -1, 1);
        Py_END_ALLOW_THREADS
        if (got == PY_LOCK_INTR && PyErr_CheckSignals() != 0)
            return false;
    } while (got == PY_LOCK_INTR);
    return true;
}

static void own(tr_py_lock *lock)
{
    lock->owner = PyThread_get_thread_ident();
    lock->depth++;
}

static bool try_lock(tr_py_lock *lock)
{
    if (lock->owner != PyThread_get_thread_ident() && !PyThread_acquire_lock(lock->lock, NOWAIT_LOCK))
        return false;
    own(lock);
    return true;
}

bool tr_py_lock_take(tr_py_lock *lock)
{
    if (try_lock(lock))
        return true;
    if (!wait_for(lock))
        return false;
    own(lock);
    return true;
}

void tr_py_lock_leave(tr_py_lock *lock)
{
    if (--lock->depth)
        return;
    lock->owner = 0;
    PyThread_release_lock(lock->lock);
}

tr_py_lock *tr_py_lock_of(PyObject *object)
{
    return Py_IS_TYPE(object, lock_type) ? (tr_py_lock *)object : NULL;
}

static PyObject *lock_enter(PyObject *self, PyObject *none)
{
    (void)none;
    return tr_py_lock_take((tr_py_lock *)self) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *lock_exit(PyObject *self, PyObject *const *error, Py_ssize_t count)
{
    tr_py_lock *lock = (tr_py_lock *)self;

    (void)error;
    (void)count;
    if (!lock->depth || lock->owner != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "a lock is left by the thread that has taken it");
        return NULL;
    }
    tr_py_lock_leave(lock);
    return Py_NewRef(Py_None);
}

static PyObject *lock_try(PyObject *self, PyObject *seconds)
{
    tr_py_lock  *lock = (tr_py_lock *)self;
    const double wait = PyFloat_AsDouble(seconds);
    bool         got = try_lock(lock);

    if (wait == -1.0 && PyErr_Occurred())
        return NULL;
    if (!got && wait > 0) {
        Py_BEGIN_ALLOW_THREADS
        got = PyThread_acquire_lock_timed(lock->lock, (PY_TIMEOUT_T)(wait * 1e6), 0) == PY_LOCK_ACQUIRED;
        Py_END_ALLOW_THREADS
        if (got)
            own(lock);
    }
    return PyBool_FromLong(got);
}

static PyMethodDef lock_methods[] = {
    {"__enter__", lock_enter, METH_NOARGS, "Take the lock; wait for another thread that has it."},
    {"__exit__", (PyCFunction)(void (*)(void))lock_exit, METH_FASTCALL, "Leave the lock."},
    {"try_enter", lock_try, METH_O, "try_enter(seconds) -> whether the lock is taken: it was free, or this thread's, or was left in time."},
    {0},
};

static PyType_Slot lock_slots[] = {
    {Py_tp_doc, "A lock that one thread may take several times: `with lock:`."},
    {Py_tp_new, lock_new},
    {Py_tp_dealloc, lock_free},
    {Py_tp_methods, lock_methods},
    {0, NULL},
};

static PyType_Spec lock_spec = {
    .name = "trireme._core.Lock", .basicsize = sizeof(tr_py_lock), .flags = Py_TPFLAGS_DEFAULT, .slots = lock_slots,
};

bool tr_py_add_lock_types(PyObject *module)
{
    lock_type = (PyTypeObject *)PyType_FromSpec(&lock_spec);
    return lock_type && PyModule_AddType(module, lock_type) == 0;
}
