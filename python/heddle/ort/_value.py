"""Values outside of runs: `OrtValue`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _values
from ._errors import InvalidArgument

#: Element types by NumPy's names: ONNX's name and number.
ELEMENTS: dict[str, tuple[str, int]] = {
    "float32": ("float", 1), "uint8": ("uint8", 2), "int8": ("int8", 3), "uint16": ("uint16", 4), "int16": ("int16", 5),
    "int32": ("int32", 6), "int64": ("int64", 7), "object": ("string", 8), "bool": ("bool", 9), "float16": ("float16", 10),
    "float64": ("double", 11), "uint32": ("uint32", 12), "uint64": ("uint64", 13), "complex64": ("complex64", 14),
    "complex128": ("complex128", 15), "bfloat16": ("bfloat16", 16), "float8_e4m3fn": ("float8e4m3fn", 17),
    "float8_e4m3fnuz": ("float8e4m3fnuz", 18), "float8_e5m2": ("float8e5m2", 19), "float8_e5m2fnuz": ("float8e5m2fnuz", 20),
    "uint4": ("uint4", 21), "int4": ("int4", 22), "float4_e2m1fn": ("float4e2m1", 23), "float8_e8m0fnu": ("float8e8m0", 24),
    "uint2": ("uint2", 25), "int2": ("int2", 26),
}


def element_of(dtype: np.dtype) -> tuple[str, int]:
    """ONNX's name and number of an element type."""
    name = "object" if dtype.kind in "UST" else dtype.name
    if name not in ELEMENTS:
        raise InvalidArgument(f"arrays of {dtype} are no values of ONNX")
    return ELEMENTS[name]


def dtype_of(element_type: Any) -> np.dtype:
    """NumPy's type of an element type: ONNX's number, or anything that NumPy takes for a type."""
    if isinstance(element_type, (int, np.integer)) and not isinstance(element_type, bool):
        found = [name for name, (_, number) in ELEMENTS.items() if number == element_type]
        if not found:
            raise InvalidArgument(f"there is no element type number {element_type}")
        return _values.dtype_named(found[0])
    return np.dtype(element_type)


def on_cpu(device_type: str) -> None:
    """Refuses devices that there are not."""
    if str(device_type).lower() != "cpu":
        raise InvalidArgument(f"there is no device {device_type!r}: values lie in the processor's memory")


def array_at(address: int, element_type: Any, shape: Sequence[int]) -> np.ndarray:
    """The array at an address, whose memory the caller keeps."""
    dtype, sizes = dtype_of(element_type), tuple(int(size) for size in shape)
    if dtype == object:
        raise InvalidArgument("text can't lie at an address")
    if any(size < 0 for size in sizes):
        raise InvalidArgument(f"{list(sizes)} is no shape")
    count = int(np.prod(sizes, dtype=object))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(int(address))
    return np.frombuffer(memory, dtype=dtype, count=count).reshape(sizes)


class OrtValue:
    """An array, a sequence, or an optional, in the processor's memory."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        """A value in the memory of an array."""
        on_cpu(device_type)
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """The same, with the elements taken for those of another type of the same width."""
        return cls(np.asarray(data).view(dtype_of(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1,
        memory_info: Any = None,
    ) -> OrtValue:
        """A value with memory of its own, which holds zeros."""
        on_cpu(device_type)
        return cls(np.zeros(tuple(shape), dtype_of(element_type)))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value in the memory of another library's array."""
        return cls(_values.as_array("value", "float32", data))

    def numpy(self) -> np.ndarray:
        """The array, without a copy. Text is an array of objects."""
        return self._array()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._array() if dtype is None else self._array().astype(dtype, copy=False)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    def update_inplace(self, data: Any) -> None:
        """Copies elements into the value's memory."""
        source = data.numpy() if isinstance(data, OrtValue) else np.asarray(data)
        target = self._array()
        if source.shape != target.shape or source.dtype != target.dtype:
            raise InvalidArgument(f"{source.dtype}{list(source.shape)} does not fit {target.dtype}{list(target.shape)}")
        np.copyto(target, source)

    def shape(self) -> list[int]:
        """The size of each axis."""
        return list(self._array().shape)

    def data_type(self) -> str:
        """ONNX's notation of the type, such as `tensor(int64)`."""
        return notation(self._value)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return element_of(self._array().dtype)[1]

    def tensor_size_in_bytes(self) -> int:
        """The bytes of all elements."""
        return self._array().nbytes

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._array().ctypes.data

    def device_name(self) -> str:
        """`"cpu"`."""
        return "cpu"

    def has_value(self) -> bool:
        """Is it no empty optional?"""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Is it an array?"""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """False: there are none."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Is it a sequence?"""
        return isinstance(self._value, list)

    def _array(self) -> np.ndarray:
        if not isinstance(self._value, np.ndarray):
            raise InvalidArgument("the value is no array")
        return self._value


def notation(value: Any) -> str:
    """ONNX's notation of a value's type."""
    if isinstance(value, (list, tuple)):
        return f"seq({notation(value[0])})" if value else "seq(tensor(float))"
    return f"tensor({element_of(np.asarray(value).dtype)[0]})"


def plain(value: Any) -> Any:
    """What a run takes for a value."""
    return value._value if isinstance(value, OrtValue) else value
