"""Scopes, the variables in them, and arrays of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .._core import ffi, lib
from .dtypes import VarType
from .errors import OutOfMemoryError, check
from .handles import Handle, Native, Uncopied, new_lock_of, share_lock
from .names import name_chars
from .tensor import LoDTensor

if TYPE_CHECKING:
    from .selected_rows import SelectedRows

_Kind = TypeVar("_Kind", bound="LoDTensor | SelectedRows")


class LoDTensorArray(Handle, Sequence[Any]):
    """A growing list of tensors: one of its own, or that in a variable of a scope.

    >>> array = fluid.LoDTensorArray()
    >>> array.append(fluid.create_lod_tensor(np.ones((2, 1), "float32"), [[2]], fluid.CPUPlace()))
    >>> array[0]
    LoDTensor(float32[2, 1], lod=[[0, 2]])
    """

    def __init__(self, _native: Native | None = None, _ptr: Any = None) -> None:
        if _native is None:
            scope = Scope()
            _native, _ptr = scope._native, scope.var("array")._ptr
        self._native = _native.retain()
        self._ptr = _ptr

    def __copy__(self) -> LoDTensorArray:
        return LoDTensorArray(self._native, self._ptr)

    def __deepcopy__(self, memo: Any) -> LoDTensorArray:
        return _array_of(list(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _array_of, (list(self),)

    def append(self, tensor: LoDTensor) -> None:
        """Append a copy of a tensor, with its sequence offsets."""
        if not isinstance(tensor, LoDTensor):
            raise TypeError(f"LoDTensorArray.append takes a LoDTensor, got {tensor!r}")
        check(lib.tr_var_array_append(self._ptr, tensor._ptr))

    def __len__(self) -> int:
        return int(lib.tr_var_array_count(self._ptr))

    def _item(self, index: int) -> Any:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"the array has {len(self)} tensors, there is no number {index}")
        return lib.tr_var_array_item(self._ptr, position)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        item = LoDTensor(_native=self._native, _ptr=self._item(index))
        item._what = f"element {index} of the array"
        return item

    def __setitem__(self, index: int, tensor: LoDTensor) -> None:
        if not isinstance(tensor, LoDTensor):
            raise TypeError(f"an element of a LoDTensorArray is a LoDTensor, got {tensor!r}")
        check(lib.tr_tensor_copy(self._item(index), tensor._ptr))


def _array_of(tensors: list[LoDTensor]) -> LoDTensorArray:
    """Return an array of copies of tensors."""
    array = LoDTensorArray()
    for tensor in tensors:
        array.append(tensor)
    return array


class ScopeVariable(Uncopied):
    """A variable of a scope, by ``scope.var(name)`` or ``scope.find_var(name)``.

    ``ptr`` is the core's handle of it.

    >>> var = fluid.Scope().var("w")
    >>> var.kind() is None
    True
    >>> var.get_tensor().set(np.ones((2, 3), "float32"))
    >>> var.name, var.kind(), var.get_tensor().shape()
    ('w', VarType.LOD_TENSOR, [2, 3])
    """

    _instead = "Copy or pickle its tensor: get_tensor()"

    def __init__(self, scope: Scope, ptr: Any, name: str) -> None:
        self._scope = scope
        self._ptr = ptr
        self.name = name

    def kind(self) -> VarType | None:
        """Return what it holds, or None when nothing was written yet."""
        code = lib.tr_var_kind_of(self._ptr)
        is_unset = code < 0 or (code == VarType.LOD_TENSOR and lib.tr_tensor_dtype(lib.tr_var_tensor(self._ptr)) < 0)
        return None if is_unset else VarType(code)

    def get_tensor(self) -> LoDTensor:
        """Return the LoDTensor that the variable holds."""
        return self._tensor(LoDTensor)

    def _tensor(self, kind: type[_Kind]) -> _Kind:
        tensor = kind(_native=self._scope._native, _ptr=lib.tr_var_tensor(self._ptr))
        tensor._what = f"the tensor of variable {self.name!r}"
        if (code := lib.tr_var_kind_of(self._ptr)) in (VarType.LOD_TENSOR_ARRAY, VarType.RAW):
            held = "an array of tensors" if code == VarType.LOD_TENSOR_ARRAY else "a sparse table or the like"
            tensor._what += f", which holds {held} and no tensor,"
        return tensor

    def get_selected_rows(self) -> SelectedRows:
        """Return the SelectedRows that the variable holds."""
        from .selected_rows import SelectedRows

        return self._tensor(SelectedRows)

    def get_lod_tensor_array(self) -> LoDTensorArray:
        """Return the LoDTensorArray that the variable holds."""
        return LoDTensorArray(self._scope._native, self._ptr)

    def __repr__(self) -> str:
        return f"<variable {self.name!r} of a scope>"


class Scope(Handle):
    """Variables by name. A scope looks a name up in itself and then in its parents.

    ``parent`` is the scope around it; None: there is none.

    >>> scope = fluid.core.Scope()
    >>> scope.var("w").get_tensor().set(np.ones(3, "float32"))
    >>> scope.new_scope().find_var("w").get_tensor()
    LoDTensor(float32[3])
    >>> scope.find_var("v") is None
    True
    """

    _instead = "Copy or pickle the tensors that are wanted, find_var(name).get_tensor(), and set them in a new Scope"

    def __init__(self, parent: Scope | None = None) -> None:
        needs = (parent._native,) if parent is not None else ()
        self._native = Native(lib.tr_scope_new(parent._native.ptr if parent is not None else ffi.NULL),
                              lib.tr_scope_free, needs, "Scope")
        # Held while a program runs here: kids see what is in their parents.
        self._lock = new_lock_of(self) if parent is None else share_lock(self, parent)

    def var(self, name: str) -> ScopeVariable:
        """Return the variable of this scope, made when there is none."""
        chars = name_chars(name)
        ptr = lib.tr_scope_var(self._native.ptr, chars)
        if not ptr:
            check(lib.tr_name_check(chars))
            raise OutOfMemoryError(f"no memory for the variable {name!r}")
        return ScopeVariable(self, ptr, name)

    def find_var(self, name: str) -> ScopeVariable | None:
        """Return the variable, here or in a parent, or None."""
        ptr = lib.tr_scope_find(self._native.ptr, name_chars(name))
        return ScopeVariable(self, ptr, name) if ptr else None

    def new_scope(self) -> Scope:
        """Return a scope inside this one. It is freed when the script holds it no longer, nor anything in it."""
        return Scope(self)

    def drop_kids(self) -> None:
        """Do nothing: scopes of ``new_scope`` are freed without a call. Scripts of Fluid make it."""

    def erase(self, names: Iterable[str]) -> None:
        """Free the variables of these ``names``, a list of texts."""
        for name in names:
            lib.tr_scope_erase(self._native.ptr, name_chars(name))

    def local_var_names(self) -> list[str]:
        """Return the names of the variables of this scope, without those of its parents."""
        ptr = self._native.ptr
        return [ffi.string(lib.tr_scope_name(ptr, i)).decode("utf-8", "surrogateescape") for i in range(lib.tr_scope_count(ptr))]

    def __contains__(self, name: str) -> bool:
        return bool(lib.tr_scope_find(self._native.ptr, name_chars(name)))

    def __repr__(self) -> str:
        return f"<Scope of {lib.tr_scope_count(self._native.ptr)} variables>"
