"""Write the C source of the extension ``trireme._core`` from the public C headers.

The declarations that cffi reads are the preprocessed headers themselves, so nothing is written twice: a
function in ``framework/trireme.h`` is a function of ``trireme._core.lib``. CMake runs this and compiles the
result; it is not part of the package.
"""

import argparse
import os
import subprocess
import sys

import cffi


# Functions in Python that the core calls: trireme/feeding/tables.py defines those of tr_table_reader, trireme/distributed/core_manager.py
# those of tr_checkpoint_contents.
CALLBACKS = """
extern "Python" {
    tr_status tr_py_checkpoint_position(const void **bytes, size_t *size, void *payload);
    tr_status tr_py_checkpoint_digest(const char **text, void *payload);
    void      tr_py_checkpoint_say(const char *text, bool is_warning, void *payload);
    tr_status tr_py_table_open(void *payload, const char *path, int64_t begin, int64_t end, char *error);
    tr_status tr_py_table_next(void *payload, tr_table_block *out, char *error);
    void      tr_py_table_close(void *payload);
}
"""


def declarations(cc: str, root: str, headers: list[str]) -> str:
    """Return the headers as cffi wants them: preprocessed, without any include of the system's."""
    includes = "".join(f'#include "{header}"\n' for header in headers)
    command = [cc, "-E", "-P", "-DTR_CFFI", "-I", root, "-x", "c", "-"]
    return subprocess.run(command, input=includes, text=True, check=True, stdout=subprocess.PIPE).stdout


# Functions of Python that the core calls (py_functions.py).
CALLED_FROM_C = 'extern "Python" tr_status tr_call_python(tr_call *call);'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cc", required=True, help="C compiler, used as a preprocessor")
    parser.add_argument("--root", required=True, help="root of the tree")
    parser.add_argument("--out", required=True, help="C file to write")
    parser.add_argument("headers", nargs="+", help="public headers, under the root")
    options = parser.parse_args()

    headers = [os.path.relpath(header, options.root) for header in options.headers]
    ffi = cffi.FFI()
    try:
        ffi.cdef(declarations(options.cc, options.root, headers))
        ffi.cdef(CALLBACKS)
    except cffi.CDefError as error:
        sys.exit(f"build_core.py: cffi cannot read {', '.join(headers)}: {error}")
    ffi.cdef(CALLED_FROM_C)
    ffi.set_source("trireme._core", "".join(f'#include "{header}"\n' for header in headers))
    ffi.emit_c_code(options.out)


if __name__ == "__main__":
    main()
